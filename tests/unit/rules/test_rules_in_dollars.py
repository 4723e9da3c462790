"""Scaling rules that read the placement's prices, the run's dollars or its returns: worked examples and properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from marless.coordinator.rules.scaling import SCALING_RULES, Bounds, add_round, rollouts
from marless.coordinator.rules.scaling_history import ScalingHistory, Signal
from marless.functions.randomness import generator

MOST = 50
scales = st.floats(1e-3, 1e6)
overheads = st.floats(0.1, 100)


def limits(overhead, **more):
    return Bounds(most=more.pop("most", MOST), least=more.pop("least", 2), beta=0.5, overhead=overhead, **more)


def at_noise(scale):
    return ScalingHistory(trace=scale, square=1.0, rounds=1)


def chosen(rule, history, bounds):
    return rollouts(rule, history, bounds, generator(7))


# --- tradeoff ---


@pytest.mark.parametrize(
    ("scale", "overhead", "expected"),
    # By hand: sqrt(16 * 9), sqrt(100 * 4), sqrt(1000 * 10) and sqrt(0.1 * 10) beyond the bounds. 3 of 3.16.
    [(16.0, 9.0, 12), (100.0, 4.0, 20), (1000.0, 10.0, 50), (0.1, 10.0, 2), (1.0, 10.0, 3)],
)
def test_rollouts_are_geometric_mean_of_noise_and_overhead(scale, overhead, expected):
    assert chosen("tradeoff", at_noise(scale), limits(overhead)) == expected


@pytest.mark.parametrize(("scale", "overhead"), [(1.0, 9.87), (300.0, 2.5), (1e4, 0.3)])
def test_closed_form_minimises_dollars_to_target(scale, overhead):
    def dollars(log):
        return (1 + scale / math.exp(log)) * (overhead + math.exp(log))

    best = minimize_scalar(dollars, bounds=(-10, 15), method="bounded", options={"xatol": 1e-9})
    assert math.exp(best.x) == pytest.approx(math.sqrt(scale * overhead), rel=1e-3)


@pytest.mark.parametrize("overhead", [0.16, 1.2, 2.6, 4.9, 7.05, 9.87, 12.0])
def test_noise_up_to_10000_covers_3_to_40(overhead):
    """Dollars to the target are o + B + b + B o / b, so the answer is b where (b - 1) b <= B o <= b (b + 1). It is at
    most 3 up to B = 12 / o and at least 40 from B = 1560 / o on. Both are within [1, 10,000] for every o from 0.156 to
    12."""
    answers = {chosen("tradeoff", at_noise(scale), limits(overhead)) for scale in np.geomspace(1, 1e4, 1500)}
    assert answers >= {*range(4, 41)}
    assert min(answers) <= 3


def test_gns_covers_no_such_range():
    answers = {chosen("gns", at_noise(scale), limits(9.87)) for scale in np.geomspace(1, 1e4, 300)}
    assert max(answers) == 10


@given(scales, scales, overheads, overheads)
def test_more_noise_or_overhead_never_lowers_rollouts(scale, more, overhead, dearer):
    (scale, more), (overhead, dearer) = sorted((scale, more)), sorted((overhead, dearer))
    before = chosen("tradeoff", at_noise(scale), limits(overhead))
    assert chosen("tradeoff", at_noise(more), limits(overhead)) >= before
    assert chosen("tradeoff", at_noise(scale), limits(dearer)) >= before


@pytest.mark.parametrize("square", [0.0, -1.0])
def test_round_of_pure_noise_has_maximum_rollouts(square):
    assert chosen("tradeoff", ScalingHistory(trace=1.0, square=square, rounds=1), limits(3.0)) == MOST


# --- budget ---


def played(noise, dollars, rounds, overhead, **more):
    """Rollouts of all rounds and their cost: the rule is asked before every round, until the rest pays for none."""
    history, got, spent = ScalingHistory(), [], 0.0
    for index in range(rounds):
        bounds = limits(overhead, left=dollars - spent, rounds=rounds - index, **more)
        number = chosen("budget", history, bounds)
        if spent + overhead + number > dollars:
            break
        got.append(number)
        spent += overhead + number
        history = at_noise(noise[index])
    return got, spent


@given(st.lists(scales, min_size=40, max_size=40), st.floats(1, 5000), st.integers(1, 40), overheads)
def test_a_budget_is_never_passed(noise, dollars, rounds, overhead):
    got, spent = played(noise, dollars, rounds, overhead)
    assert spent <= dollars
    assert all(2 <= number <= MOST for number in got)


@given(st.lists(scales, min_size=40, max_size=40), st.integers(20, 40), st.floats(0.1, 20), st.floats(2, 50))
def test_usable_budget_is_spent_to_95_percent(noise, rounds, overhead, share):
    """The rest is less than the smallest round, o + 2 prices of a rollout: of 20 such rounds or more, 5 %."""
    dollars = rounds * (overhead + share)
    _, spent = played(noise, dollars, rounds, overhead)
    assert spent >= 0.95 * dollars


@pytest.mark.parametrize(
    ("scale", "dollars", "rounds", "overhead", "expected"),
    # Shares: 400 / 20 - 5 = 15, and sqrt(5 * 5) = 5 needs less. 400 / 40 - 5 = 5, less than sqrt(80 * 5) = 20.
    [(5.0, 400.0, 20, 5.0, 15), (80.0, 400.0, 40, 5.0, 20), (1e9, 400.0, 40, 5.0, 50), (80.0, 23.0, 40, 5.0, 18)],
)
def test_round_has_its_share_or_tradeoff(scale, dollars, rounds, overhead, expected):
    assert chosen("budget", at_noise(scale), limits(overhead, left=dollars, rounds=rounds)) == expected


def best_by_multiplier(scale, dollars, rounds, overhead):
    """The most progress of rounds of b rollouts, by bisection of a Lagrange multiplier m. Every round has the b that
    maximises b / (b + B) - m (overhead + b), and is played only if that is positive."""

    def each(multiplier):
        return max(0.0, math.sqrt(scale / multiplier) - scale)

    worthless = max(b / (b + scale) / (overhead + b) for b in np.geomspace(1e-3, 1e5, 20000))
    low, high = 1e-12, worthless
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rounds * (overhead + each(middle)) > dollars else (low, middle)
    number = each(high)
    return min(rounds, dollars / (overhead + number)) * number / (number + scale)


@given(st.floats(0.5, 5000), st.integers(10, 60), st.floats(0.5, 20), st.floats(3, 40))
def test_no_multiplier_makes_more_progress_of_the_dollars(scale, rounds, overhead, share):
    """Up to whole rollouts and a last round that is smaller or cannot be paid."""
    dollars = rounds * (overhead + share)
    got, _ = played([scale] * rounds, dollars, rounds, overhead, most=10_000)
    progress = sum(number / (number + scale) for number in got)
    best = best_by_multiplier(scale, dollars, rounds, overhead)
    largest = max(got) / (max(got) + scale)
    assert best - 2 * largest - 0.15 * best <= progress <= best * (1 + 1e-6)


# --- adapt ---


def returned(*means):
    history = ScalingHistory()
    for mean in means:
        history = add_round(history, {0: Signal()}, 10, "adapt", mean)
    return history


@pytest.mark.parametrize(
    ("means", "target", "expected"),
    [
        ((0.0, 4.0, 5.0, 6.0, 5.0, 5.0), 10.0, 16),  # half of 32
        ((0.0, 100.0, 4.0, 5.0, 6.0, 5.0, 5.0), 10.0, 16),  # five rounds back and no more
        ((0.0, 1.0), 10.0, 2),  # mean 0.5: 1.6, rounded up
        ((-60.0, -40.0, -40.0, -40.0, -40.0, -40.0), -20.0, 16),
        ((-60.0, -80.0), -20.0, 1),
        ((0.0, 20.0, 20.0, 20.0, 20.0, 20.0), 10.0, 32),
        ((5.0,), 5.0, 32),  # at its target from the start
    ],
)
def test_adapt_follows_the_returns_to_the_target(means, target, expected):
    assert chosen("adapt", returned(*means), limits(1.0, least=1, most=32, target=target)) == expected


# --- their state ---


@pytest.mark.parametrize("rule", SCALING_RULES.built_in)
def test_only_rules_that_read_returns_pay_for_them(rule):
    history = add_round(ScalingHistory(), {0: Signal()}, 10, rule, 3.0)
    assert history.returns == ((3.0, 3.0) if rule.endswith("adapt") else ())
