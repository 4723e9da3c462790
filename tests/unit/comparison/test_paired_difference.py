"""Equality of two arms needs a margin, five pairs, and an interval within the margin."""

import pytest

from benchmarks.comparisons.paired_difference import conclusion, interval

# The differences -2, -1, 0, 1 and 2 have the mean 0 and the standard error sqrt(2.5 / 5) = 0.7071. Student's t for 90 %
# and four degrees of freedom is 2.1318, so the interval is 0 ± 1.5074.
NUMBERS = [10.0, 20.0, 30.0, 40.0, 50.0]
SHIFTED = [8.0, 19.0, 30.0, 41.0, 52.0]


def test_the_interval_is_of_the_differences_by_pair():
    assert interval(SHIFTED, NUMBERS, 2) == "+0.00 (-1.51 to +1.51)"
    assert interval([number - 3 for number in SHIFTED], NUMBERS, 1) == "-3.0 (-4.5 to -1.5)"


@pytest.mark.parametrize(
    ("shift", "margin", "expected"),
    [
        (0.0, 1.51, "equal within 1.51"),
        (0.0, 1.5, "undecided"),
        (0.0, None, "undecided"),
        (-3.0, 4.6, "lower, but equal within 4.6"),
        (3.0, 4.5, "higher"),
        (3.0, None, "higher"),
    ],
)
def test_arms_are_equal_only_within_a_margin(shift, margin, expected):
    assert conclusion([number + shift for number in SHIFTED], NUMBERS, margin) == expected


def test_a_mean_inside_a_noisy_interval_is_no_equality():
    """Five seeds lose 1 each. The arm's mean is inside the other's interval, because the seeds are far apart."""
    lower = [number - 1 - 0.01 * number for number in NUMBERS]
    assert conclusion(lower, NUMBERS, 0.5) == "lower"


def test_four_pairs_show_nothing():
    assert conclusion(NUMBERS[:4], NUMBERS[:4], 1.0) == "4 pairs, 5 are needed"
