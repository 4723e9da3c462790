import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from marless.coordinator.placement.timings import Timings, add_observation, line, predict, whole_core_ms
from marless.coordinator.pricing.bill import billed_ms

SIZES = st.lists(st.integers(1, 1000), min_size=2, max_size=8)
MS = st.floats(0, 1e4)


def seen(*observations, kind="sample", style="", weight=1.0):
    timings = {}
    for size, ms in observations:
        timings = add_observation(timings, kind, size, ms, style, weight)
    return timings


def spread(sizes):
    """The squared coefficient of variation, the last observations counting most."""
    weights = 0.9 ** np.arange(len(sizes))[::-1]
    mean = np.average(sizes, weights=weights)
    return np.average((np.array(sizes) - mean) ** 2, weights=weights) / mean**2


def test_a_kind_never_seen_is_not_predicted():
    timings = seen((1, 5.0), kind="sample")
    assert predict(timings, "learn", 1) is None
    assert line(timings, "learn") is None


@given(sizes=SIZES, overhead=MS, slope=MS)
@settings(max_examples=100, deadline=None)
def test_overhead_and_slope_are_recovered_from_noiseless_data(sizes, overhead, slope):
    assume(spread(sizes) > 0.02)
    found = line(seen(*((size, overhead + slope * size) for size in sizes)), "sample")
    assert found == pytest.approx((overhead, slope), rel=1e-6, abs=1e-9 + 1e-6 * (overhead + 1000 * slope))


@given(data=st.lists(st.tuples(st.integers(1, 1000), MS), min_size=2, max_size=8))
@settings(max_examples=100, deadline=None)
def test_line_is_non_negative_least_squares_of_scipy(data):
    sizes, ms = (np.array(column, dtype=float) for column in zip(*data, strict=True))
    assume(spread(sizes) > 0.02)
    root = np.sqrt(0.9 ** np.arange(len(data))[::-1])
    _, expected = nnls(np.stack([root, root * sizes], axis=1), root * ms)
    overhead, slope = line(seen(*data), "sample")
    assert overhead >= 0 and slope >= 0
    # Compares errors: near the optimum many lines are equally good.
    assert np.linalg.norm(root * (ms - overhead - slope * sizes)) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(size=st.integers(1, 10**6), ms=st.lists(MS, min_size=1, max_size=5), other=st.integers(1, 10**6))
@settings(max_examples=50, deadline=None)
def test_predictions_are_never_negative_and_single_size_mean(size, ms, other):
    timings = seen(*((size, value) for value in ms))
    mean = np.average(ms, weights=0.9 ** np.arange(len(ms))[::-1])
    assert predict(timings, "sample", size) == pytest.approx(mean)
    assert predict(timings, "sample", other) >= 0


def test_single_size_has_two_milliseconds_of_overhead():
    assert line(seen((4, 10.0)), "sample") == pytest.approx((2.0, 2.0))
    assert line(seen((4, 1.5)), "sample") == pytest.approx((1.5, 0.0))
    assert line(seen((0, 7.0)), "sample") == pytest.approx((7.0, 0.0))


def test_a_slow_start_fades():
    # Ten more observations: 0.9^10 = 0.349 of the weight of the first, against (1 - 0.9^10) / 0.1 = 6.51.
    timings = seen((5, 100.0), *[(5, 10.0)] * 10)
    assert predict(timings, "sample", 5) == pytest.approx((34.87 + 65.13) / (0.3487 + 6.513), rel=1e-3)


def test_round_counts_once_for_any_task_number():
    often = seen((5, 100.0))
    for _ in range(8):
        often = add_observation(often, "sample", 5, 10.0, weight=1 / 8)
    # 100 has 0.9 of a weight, the eight tasks one together, up to the decay during the round.
    assert predict(often, "sample", 5) == pytest.approx((90.0 + 10.0) / 1.9, rel=0.03)


def test_seen_placement_is_corrected_by_its_deviation():
    timings: Timings = {}
    for _ in range(50):
        timings = add_observation(timings, "learn", 10, 30.0, style="fused")
        timings = add_observation(timings, "learn", 10, 10.0, style="packed")
    # The line itself moves by 5 % with each of them.
    assert predict(timings, "learn", 10, "fused") == pytest.approx(30.0, rel=0.06)
    assert predict(timings, "learn", 10, "packed") == pytest.approx(10.0, rel=0.06)
    assert 19 < predict(timings, "learn", 10, "split") < 21
    assert predict(timings, "learn", 10) == predict(timings, "learn", 10, "split")


def test_what_lies_on_the_line_is_not_corrected():
    timings = seen((10, 30.0), (20, 50.0), style="fused")
    assert predict(timings, "sample", 30, "fused") == pytest.approx(70.0)


def test_observation_keeps_earlier_timings_and_survives_ledger():
    before = seen((1, 5.0))
    copy = dict(before)
    after = add_observation(before, "sample", 2, 8.0, "fused")
    assert before == copy
    assert msgspec.json.decode(msgspec.json.encode(after), type=Timings) == after


def test_times_on_core_share_are_learned_as_whole():
    # 512 MB buy 512 / 1769 of a vCPU: 345.5 ms there are 100 ms alone. More than one vCPU shortens nothing.
    assert whole_core_ms(345.5078125, 512, 1769) == pytest.approx(100.0)
    assert whole_core_ms(100.0, 3538, 1769) == 100.0
    # Times learned this way are billed as measured.
    timings = seen((4, whole_core_ms(690.2, 512, 1769)))
    assert billed_ms(predict(timings, "sample", 4), 0, 512, 1769) == 691
