"""Digits of returns and metrics by their size."""

import math

import pytest

from marless.page.axis_numbers import interval, labels, number
from marless.reports.digits import digits_of, figure
from marless.reports.statistics import FinalReturn
from marless.reports.text import by_side, env_metrics, plus_minus


@pytest.mark.parametrize(
    ("value", "usual", "text"),
    [
        (-32.94, None, "-32.9"),
        (9.994, None, "9.99"),
        (10.04, None, "10.0"),
        (0.988, None, "0.99"),
        (0.1, None, "0.10"),
        (0.0987, None, "0.099"),
        (0, None, "0.0"),
        (-32.94, 1, "-32.9"),
        (0, 1, "0.0"),
        (-0.0, 1, "0.0"),
        (-0.04, 2, "-0.04"),
        (0.88, 1, "0.9"),
        (1234.5678, 1, "1234.6"),
        (0.046, 1, "0.046"),
        (0.0009, 1, "0.00090"),
        (1e-4, 1, "0.00010"),
        (-2.34e-7, 1, "-2.3e-07"),
        (5e-324, 1, "4.9e-324"),
        (0.00123, 3, "0.001"),
        (0.000512, 3, "0.00051"),
        (9999999.0, 1, "9999999.0"),
        (4e12, 1, "4.00e+12"),
        (-1.7976931348623157e308, 1, "-1.80e+308"),
        (math.inf, 1, "inf"),
        (math.nan, 1, "nan"),
    ],
)
def test_a_number_has_the_digits_of_its_size(value, usual, text):
    assert figure(value, usual) == text


def test_no_number_but_0_is_shown_as_0():
    for power in range(-300, 300):
        for usual in (0, 1, 2, 3):
            assert float(figure(3.2 * 10.0**power, usual)) == pytest.approx(3.2 * 10.0**power, rel=0.17)


def test_numbers_shown_together_have_digits_of_largest():
    assert [digits_of([-32.9, 1e-6]).text(value) for value in (-32.9, 1e-6)] == ["-32.9", "0.0"]
    assert [digits_of([0.012, 0.0003]).text(value, sign=True) for value in (0.012, -0.0003)] == ["+0.012", "+0.000"]
    assert digits_of([1e-4, math.nan]).text(math.nan) == "nan"
    assert [digits_of([7.184, 12.0]).text(7.184), digits_of([7.184, 9.0]).text(7.184)] == ["7.2", "7.18"]
    assert digits_of([]).text(0.0) == "0.0"


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (-32.9, 0.4, "-32.9 ± 0.4"),
        (0.0, 0.3, "0.00 ± 0.30"),
        (1.97, 0.25, "1.97 ± 0.25"),
        # As many digits as the width needs, without errors of rounding.
        (1.973, 0.008, "1.973 ± 0.008"),
        (-57.84, 0.04, "-57.84 ± 0.04"),
        (10.0, 0.0, "10.0 ± 0.0"),
        (10.0, 1e-15, "10.0 ± 0.0"),
        (1.2e-4, 3e-5, "0.00012 ± 0.00003"),
        (0.0, 3e-5, "0 ± 3.0e-05"),
        (4e12, 2.5e11, "4.00e+12 ± 2.50e+11"),
        (4e12, 3.0, "4.00e+12 ± 3.0"),
        (4.0, math.inf, "4.00 ± inf"),
    ],
)
def test_mean_and_interval_have_same_digits(mean, half, text):
    assert plus_minus(FinalReturn(mean=mean, iqm=mean, ci95=(mean - half, mean + half), episodes=9)) == text


def test_sides_and_metrics_follow_the_same_rule():
    assert by_side({"red": -3.25, "blue": 2e-4}) == "red -3.25, blue 0.00020"
    assert env_metrics({"win": 0.5312, "rare": 2e-5}) == "win 0.531, rare 2.0e-05"


def test_interval_on_page_has_digits_of_value():
    assert interval(7.18, (6.996, 7.37)) == "7.18 (7.00 to 7.37)"
    assert interval(0.5, (0.498, 0.502)) == "0.500 (0.498 to 0.502)"
    assert interval(7.0, None) == "7"


def test_a_page_shows_no_long_rows_of_zeros():
    assert [number(value) for value in (96_000, -57.5, 0.0123, 4e12, 2e-7)] == [
        "96,000",
        "-57.5",
        "0.0123",
        "4.00e+12",
        "2.0e-07",
    ]
    assert labels([0, 2e12, 4e12]) == ["0", "2T", "4T"]
    assert labels([0, 2e-6, 4e-6]) == ["0", "2e-06", "4e-06"]
