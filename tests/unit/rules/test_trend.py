import math

import msgspec
import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from marless.coordinator.rules import trend
from marless.coordinator.rules.trend import (
    CRITICAL,
    TRENDS,
    TrendHistory,
    add_round,
    clear_window,
    critical,
    slope,
    steepness,
    values,
)

numbers = st.floats(-1e3, 1e3)


@st.composite
def tables(draw, least=2):
    shape = draw(st.integers(least, 12)), draw(st.integers(1, 4))
    cells = draw(st.lists(st.integers(-1000, 1000), min_size=math.prod(shape), max_size=math.prod(shape)))
    return np.array(cells, dtype=float).reshape(shape) / 10


def remembered(rounds, length=100):
    history = TrendHistory()
    for returns in rounds:
        history = add_round(history, returns, length)
    return history


def test_window_keeps_last_rounds_and_extremes_keep_all():
    history = remembered([(5, 0), (1, -7), (2, 3), (3, 1)], length=2)
    assert history == TrendHistory(low=(1, -7), high=(5, 3), window=((2, 3), (3, 1)))
    assert clear_window(history) == TrendHistory(low=(1, -7), high=(5, 3))
    assert add_round(clear_window(history), (9, 0), 2) == TrendHistory(low=(1, -7), high=(9, 3), window=((9, 0),))


def test_round_with_other_number_of_agents_is_refused():
    with pytest.raises(ValueError):
        add_round(remembered([(1, 2)]), (1, 2, 3), 5)


def test_the_memory_survives_the_wire():
    history = remembered([(1.5, 0.1), (np.float64(1) / 3, -2)])
    assert msgspec.json.decode(msgspec.json.encode(history), type=TrendHistory) == history


def test_values_are_mean_shares_of_extremes():
    # Agent 0 spans 0 to 4, agent 1 spans 10 to 20: shares 0, 1, 0.5 and 1, 0, 0.5.
    assert values(remembered([(0, 20), (4, 10), (2, 15)])).tolist() == [0.5, 0.5, 0.5]
    assert values(remembered([(0, 10), (4, 15), (2, 20)])).tolist() == [0, 0.75, 0.75]


def test_agent_with_constant_return_counts_half():
    assert values(remembered([(0, 7), (4, 7), (2, 7)])).tolist() == [0.25, 0.75, 0.5]
    assert values(remembered([(3,), (3,)])).tolist() == [0.5, 0.5]


def test_extremes_known_now_renormalise_the_whole_window():
    history = remembered([(-10,), (0,), (10,), (5,)], length=2)
    assert values(history).tolist() == [1, 0.75]
    assert values(add_round(history, (30,), 2)).tolist() == [0.375, 1]  # 15 / 40 and 40 / 40


def test_slopes_by_hand():
    assert slope(np.array([1.0, 2.0, 4.0])) == pytest.approx(1.5)
    assert slope(np.array([3.0, 1.0])) == pytest.approx(-2)


@settings(max_examples=50, deadline=None)
@given(st.lists(numbers, min_size=2, max_size=30))
def test_the_slope_is_scipys(series):
    expected = scipy.stats.linregress(np.arange(len(series)), series).slope
    assert slope(np.array(series)) == pytest.approx(expected, abs=1e-9)


def test_the_slope_does_not_grow_with_the_team():
    rounds = np.array([0.0, 3, 1, 2, 8])
    alone = slope(values(remembered(rounds[:, np.newaxis])))
    assert slope(values(remembered(np.repeat(rounds[:, np.newaxis], 7, axis=1)))) == pytest.approx(alone)


@settings(max_examples=100, deadline=None)
@given(tables(), st.floats(0.01, 100), st.floats(-100, 100))
def test_values_are_independent_of_return_scale(rounds, factor, shift):
    assert values(remembered(factor * rounds + shift)) == pytest.approx(values(remembered(rounds)), abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(tables(), st.randoms())
def test_values_are_independent_of_agent_order(rounds, random):
    order = random.sample(range(rounds.shape[1]), rounds.shape[1])
    assert values(remembered(rounds[:, order])) == pytest.approx(values(remembered(rounds)), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(tables())
def test_values_lie_between_nought_and_one(rounds):
    series = values(remembered(rounds))
    assert len(series) == len(rounds)
    assert ((series >= 0) & (series <= 1)).all()


FALLING, FLAT, RISING = np.array([0.5, 0.4, 0.3]), np.array([0.5, 0.4, 0.5]), np.array([0.3, 0.4, 0.5])


@pytest.mark.parametrize(
    "rule, gamma, flips",
    [  # gradients -0.1, 0, 0.1
        ("paper", 0.15, (True, True, True)),
        ("paper", 0.05, (True, True, False)),
        ("paper", 0.0, (True, False, False)),
        ("paper", -0.15, (False, False, False)),
        ("decline", 0.15, (False, False, False)),
        ("decline", 0.05, (True, False, False)),
        ("decline", 0.0, (True, False, False)),
        ("decline", -0.05, (True, True, False)),
        ("decline", -0.15, (True, True, True)),
    ],
)
def test_lower_gamma_flips_less_or_more_by_reading(rule, gamma, flips):
    assert tuple(TRENDS[rule](series, gamma, 0.05) for series in (FALLING, FLAT, RISING)) == flips


@settings(max_examples=50, deadline=None)
@given(st.lists(numbers, min_size=2, max_size=20))
def test_both_readings_of_gamma_agree_at_nought(series):
    assert TRENDS["paper"](np.array(series), 0, 0.05) == TRENDS["decline"](np.array(series), 0, 0.05)


def dense_steepness(series):
    """-slope / error with the sandwich (X'X)^-1 S (X'X)^-1 of Newey & West, one lag with weight 1/2, uncentred."""
    design = np.column_stack([np.ones(len(series)), np.arange(len(series))])
    bread = np.linalg.inv(design.T @ design)
    estimate = bread @ design.T @ series
    scores = design * (series - design @ estimate)[:, np.newaxis]
    lag = scores[1:].T @ scores[:-1]
    covariance = bread @ (scores.T @ scores + 0.5 * (lag + lag.T)) @ bread
    return -estimate[1] / math.sqrt(covariance[1, 1])


@pytest.mark.parametrize("length", [3, 5, 10, 31])
def test_steepness_is_the_dense_sandwichs(length):
    series = np.random.default_rng(length).normal(size=(6, length))
    expected = [dense_steepness(row) for row in series]
    assert steepness(series) == pytest.approx(expected, rel=1e-9)
    assert steepness(series[0]) == pytest.approx(expected[0], rel=1e-9)


def test_steepness_by_hand():
    # 3, 0, 0: slope -1.5. Residuals 0.5, -1, 0.5. Scores -0.5, 0, 0.5. Error sqrt(0.5) / 2.
    assert steepness(np.array([3.0, 0.0, 0.0])) == pytest.approx(1.5 / (math.sqrt(0.5) / 2))


@settings(max_examples=100, deadline=None)
@given(tables(least=5), st.floats(0.01, 100), st.floats(-100, 100))
def test_significance_is_independent_of_return_scale(rounds, factor, shift):
    series = values(remembered(rounds))
    assume(not abs(steepness(series) / critical(len(series), 0.05) - 1) < 1e-6)
    assume(np.ptp(series - slope(series) * np.arange(len(series))) > 1e-6)
    rescaled = values(remembered(factor * rounds + shift))
    assert TRENDS["significant"](rescaled, 0, 0.05) == TRENDS["significant"](series, 0, 0.05)


@pytest.mark.parametrize("length", [3, 4, 5, 10, 37, 100])
def test_only_straight_fall_is_significant(length):
    line = np.arange(length, dtype=float)
    assert TRENDS["significant"](-line, 0, 0.01)
    assert not TRENDS["significant"](line, 0, 0.01)
    assert not TRENDS["significant"](np.full(length, 0.3), 0, 0.01)


def test_doubtful_fall_is_significant_only_at_large_alpha():
    series = -0.1 * np.arange(10) + 0.06 * np.array([1, 1, -1, -1, 1, 1, -1, -1, 1, 1])
    assert critical(10, 0.1) < steepness(series) < critical(10, 0.01)
    assert TRENDS["significant"](series, 0, 0.1)
    assert not TRENDS["significant"](series, 0, 0.01)


def test_two_rounds_are_never_significant():
    assert critical(2, 0.1) == math.inf
    assert not TRENDS["significant"](np.array([1.0, 0.0]), 0, 0.1)


def test_critical_values_match_table_and_interpolate():
    assert critical(10, 0.05) == pytest.approx(CRITICAL[10][trend.ALPHAS.index(0.05)])
    assert CRITICAL[10][2] > critical(11, 0.05) > CRITICAL[12][2]
    assert CRITICAL[10][2] < critical(10, 0.02) < CRITICAL[10][1]
    assert critical(100, 0.05) == critical(max(CRITICAL), 0.05)


@settings(max_examples=50, deadline=None)
@given(st.integers(3, 99), st.floats(0.001, 0.1), st.floats(0.001, 0.1))
def test_critical_values_fall_with_window_and_alpha(window, one, other):
    assert critical(window + 1, one) <= critical(window, one)
    assert critical(window, max(one, other)) <= critical(window, min(one, other))


def test_false_alarms_in_100_rounds_are_as_promised():
    """White and AR(1) noise. The conformance suite measures the rest."""
    shocks = np.random.default_rng(5).standard_normal((3000, 140))
    for rho, least in ((0.0, 0), (0.6, 0.03)):
        states = np.zeros_like(shocks)
        for round_ in range(1, 140):
            states[:, round_] = rho * states[:, round_ - 1] + shocks[:, round_]
        steepest = steepness(sliding_window_view(states[:, -109:], 10, axis=1)).max(axis=1)
        rate = (steepest > critical(10, 0.05)).mean()
        assert least <= rate <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 3000), rho
