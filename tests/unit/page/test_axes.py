"""Axes of charts whose values are equal, tiny or huge."""

import itertools
import math

import numpy as np
import pytest

from marless.page import axis_numbers
from marless.page.chart import ChartLine, Size, frame_of
from marless.reports import plot_style

VALUES = (0.0, 5e-324, 1e-310, 1e-300, -1.0, 3.0, 3.0000000000000004, 1e16, 1e16 + 2, 1e44, -1e44)


@pytest.mark.parametrize(("one", "other"), itertools.product(VALUES, VALUES))
def test_two_values_have_a_place_and_their_axis_has_ticks(one, other):
    frame = frame_of([ChartLine("a", [0, 0], [one, other])], Size())
    places = [frame.up(one), frame.up(other), frame.across(0)]
    assert all(map(math.isfinite, places)) and (places[0] - places[1]) * (other - one) >= 0
    assert 0 < len(axis_numbers.labels(axis_numbers.ticks(*frame.y))) <= 7
    of_pair = np.array([one, other])
    bottom, top = plot_style._limits([plot_style.PlotLine(np.array([1.0, 2.0]), of_pair, of_pair, of_pair)])
    assert bottom < top and bottom <= min(one, other) and max(one, other) <= top
