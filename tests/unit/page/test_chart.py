"""Charts: the places of points, the reduction of long curves, and the numbers along the axes."""

import math

import numpy as np
import pytest
from reported_runs import a_line

from marless.page import axis_numbers
from marless.page.chart import ChartLine, Size, chart, figure, frame_of, points
from marless.page.downsampling import largest_triangles
from marless.page.group_strip import spans, strip

# Between x 56 and 346 and between y 8 and 188.
SIZE = Size(360, 212)


def test_three_points_are_drawn_like_hand_computation():
    line = ChartLine("a", [0, 50, 100], [10.0, 30.0, 20.0])
    frame = frame_of([line], SIZE)
    assert frame.x == (0, 100)
    assert frame.y == (9.0, 31.0)  # 5 % of the range of 20 on either side
    # For y: 188 - 180 * (10 - 9) / 22 = 179.8. Then 188 - 180 * 21 / 22 = 16.2 and 188 - 180 * 11 / 22 = 98.
    assert points(line, frame) == "56,179.8 201,16.2 346,98"
    assert 'points="56,179.8 201,16.2 346,98"' in chart("t", [line], "steps", SIZE)


def test_step_line_holds_value_until_next_point():
    line = ChartLine("a", [0, 50, 100], [10.0, 30.0, 30.0], steps=True)
    assert points(line, frame_of([line], SIZE)) == "56,179.8 201,179.8 201,16.2 346,16.2"


def test_band_follows_upper_end_and_returns_along_lower():
    line = ChartLine("a", [0, 100], [20.0, 20.0], [10.0, 10.0], [30.0, 30.0])
    assert 'class="band c0" points="56,16.2 346,16.2 346,179.8 56,179.8"' in chart("t", [line], "steps", SIZE)


def test_dots_say_their_value_and_its_interval():
    line = ChartLine("greedy", [0, 2000], [1.5, 2.5], [1.0, 2.0], [2.0, 3.0], dots=True)
    assert "<title>greedy, 2,000 steps: 2.50 (2.00 to 3.00)</title>" in chart("t", [line], "steps", SIZE)


def test_values_that_are_no_numbers_are_left_out():
    line = ChartLine("a", [0, 25, 50, 100], [10.0, math.nan, 30.0, math.inf])
    drawn = chart("t", [line], "steps", SIZE)
    assert "nan" not in drawn
    assert "inf" not in drawn
    assert 'points="56,179.8 346,16.2"' in drawn


def test_a_chart_without_a_number_is_not_drawn():
    assert figure("t", "n", [ChartLine("a", [1.0], [math.nan])], "steps", SIZE) == ""
    assert figure("t", "n", [], "steps", SIZE) == ""


def test_one_point_is_a_dot():
    assert "<circle" in chart("t", [ChartLine("a", [5], [1.0])], "steps", SIZE)


def test_names_are_escaped_in_charts():
    drawn = figure(
        "<b>", "<i>", [ChartLine('"<script>', [0, 1], [0, 1]), ChartLine("b", [0, 1], [0, 1])], "steps", SIZE
    )
    assert "<script>" not in drawn
    assert 'data-name="&quot;&lt;script&gt;"' in drawn


def test_the_point_of_the_largest_triangle_is_kept():
    # One bucket between the ends: its triangle with (0, 0) and (4, 0) is largest for the peak.
    assert largest_triangles([0, 1, 2, 3, 4], [0, 1, 7, 2, 0], 3).tolist() == [0, 2, 4]
    # Buckets {1, 2} and {3, 4}. The areas of 1 and 2 use (0, 0) and the mean (3.5, 0.5). They are
    # |0.5 * 1 - 3.5 * 0| / 2 and |0.5 * 2 - 3.5 * 4| / 2. Then with (2, 4) and (5, 0): 3 and 4 give
    # |(3 - 2) * (0 - 4) - (5 - 2) * (1 - 4)| / 2 = 2.5 and |(4 - 2) * -4 - 3 * (0 - 4)| / 2 = 2.
    assert largest_triangles([0, 1, 2, 3, 4, 5], [0, 0, 4, 1, 0, 0], 4).tolist() == [0, 2, 3, 5]


def test_long_curves_keep_their_ends_and_their_peak():
    y = np.zeros(5_000)
    y[1_234] = 1.0
    kept = largest_triangles(range(5_000), y, 200).tolist()
    assert len(kept) == len({*kept}) == 200
    assert kept == sorted(kept)
    assert (kept[0], kept[-1], 1_234 in kept) == (0, 4_999, True)


def test_short_curves_keep_every_point():
    assert largest_triangles([0, 1, 2], [5, 6, 7], 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("low", "high", "whole", "expected"),
    [
        (0, 100, False, [0, 20, 40, 60, 80, 100]),
        (-72.5, -48, False, [-70, -65, -60, -55, -50]),
        (0.1, 0.33, False, [0.1, 0.15, 0.2, 0.25, 0.3]),
        (0.8, 3.2, True, [1, 2, 3]),
        (3.6, 4.4, True, [4]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(low, high, whole, expected):
    assert axis_numbers.ticks(low, high, whole=whole) == pytest.approx(expected)


def test_labels_have_digits_that_their_step_needs():
    assert axis_numbers.labels([0, 20_000, 40_000]) == ["0", "20k", "40k"]
    assert axis_numbers.labels([0, 500_000, 1_000_000]) == ["0", "0.5M", "1.0M"]
    assert axis_numbers.labels([-0.05, 0.0, 0.05]) == ["-0.05", "0", "0.05"]
    assert axis_numbers.labels([0, 0.001, 0.002], dollars=True) == ["$0", "$0.001", "$0.002"]


def test_numbers_have_about_four_digits():
    said = [axis_numbers.number(value) for value in (96000, -57.512, 2.0, 1.234, 0.01234, 0.0, 12.0)]
    assert said == ["96,000", "-57.5", "2", "1.23", "0.0123", "0", "12"]


def test_agent_is_drawn_while_it_stays_in_group():
    lines = [a_line(1, team=(0, 1)), a_line(2, team=(0, 1)), a_line(3, team=(0, 0)), a_line(4, team=(0, 0))]
    assert list(spans(lines, 0)) == [(1, 4, 0)]
    assert list(spans(lines, 1)) == [(1, 2, 1), (3, 4, 0)]
    assert "<title>b, rounds 3 to 4: network g00</title>" in strip(lines, ("a", "b"))
