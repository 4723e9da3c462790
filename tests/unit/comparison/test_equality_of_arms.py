"""Equality of two arms needs a margin, pairs, and an interval within the margin."""

import pytest

from benchmarks.comparisons import ten_seeds
from benchmarks.comparisons.equal_returns import difference, rows_of
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


def test_mean_inside_noisy_interval_is_no_equality():
    """Five seeds lose 1 each. The arm's mean is inside the other's interval, because the seeds are far apart."""
    lower = [number - 1 - 0.01 * number for number in NUMBERS]
    assert conclusion(lower, NUMBERS, 0.5) == "lower"


def test_four_pairs_show_nothing():
    assert conclusion(NUMBERS[:4], NUMBERS[:4], 1.0) == "4 pairs, 5 are needed"


def test_seed_of_unfinished_run_is_named(tmp_path):
    for seed in (3, 12):
        folder = tmp_path / "runs" / f"base-s{seed}"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(f"seed = {seed}\n")
    with pytest.raises(SystemExit, match=r"have not all finished: 3, 12$"):
        rows_of(tmp_path)


def a_row(seed, native, numpy, seconds="5.0"):
    row = {f"{engine}_{what}": "5.0" for engine in ("native", "numpy") for what in ("seconds", "evaluated_seconds")}
    returns = {"native_return": str(native), "numpy_return": str(numpy)}
    return {"seed": str(seed), "plain_seconds": "10.0", **row, **returns, "native_seconds": seconds}


def test_engines_are_equal_only_within_the_margin():
    """Differences of ±0.1 around 0 and around 0.45 have the standard error 0.0447 and the 90 % interval ± 0.0953."""
    numpy = [-34.0, -33.0, -32.0, -33.5, -32.5]
    for shift, shown in ((0.0, "equal within 0.5"), (0.45, "higher")):
        noise = (0.1, -0.1, 0.1, -0.1, 0.0)
        rows = [a_row(seed, value + shift + noise[seed], value) for seed, value in enumerate(numpy)]
        assert difference(rows).endswith(f"With a margin of 0.5 the seeds show: {shown}")


def test_seed_that_misses_return_counts_as_slowest():
    """The shares are 0.4, 0.5 and twice missing, so the median is missing. With one such seed it is 0.5."""
    seconds = ["4.0", "", "5.0", ""]
    rows = [a_row(seed, -33.0, -33.0 + seed / 10, cell) for seed, cell in enumerate(seconds)]
    baseline, native, numpy, *_ = ten_seeds.summary(rows)
    assert baseline == "baseline: -36 reached in 4 of 4 seeds"
    assert native == (
        "native: -36 reached in 2 of 4 seeds, in not reached of the baseline's seconds, 0.40 … not reached (4)"
    )
    assert numpy.endswith("4 of 4 seeds, in 0.50 of the baseline's seconds, 0.50 … 0.50 (4)")
    assert "in 0.50 of the baseline's seconds, 0.40 … not reached (3)" in ten_seeds.summary(rows[:3])[1]
