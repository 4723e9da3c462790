"""The number of rollouts of a round: the rules on worked examples, their conditions, and their controls."""

import dataclasses
import itertools
import math
from collections import Counter
from decimal import Decimal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from marless.coordinator.placement.placement_rules import list_overhead
from marless.coordinator.pricing.bill import Meter, bill
from marless.coordinator.pricing.prices import load_prices
from marless.coordinator.rules.scaling import HISTORY, SCALING_RULES, Bounds, add_round, clear_windows, needs, rollouts
from marless.coordinator.rules.scaling_history import (
    CONVEX,
    DECAY,
    ScalingHistory,
    ScalingSignals,
    Signal,
    convexity,
    noise_scale,
    share,
)
from marless.functions.algorithms.ppo.specs import PPO_STAGES
from marless.functions.messages.usage import Usage
from marless.functions.randomness import generator

RULES = tuple(SCALING_RULES.built_in)
# The paper's settings for six agents: I_max 50, I_min 50/6 (9 in whole rollouts), beta 0.5.
PAPER = Bounds(most=50, least=9, beta=0.5, overhead=0.0)
# The same six times as large, where I_min = I_max / N is a whole number.
SIX, THREE = (Bounds(most=300, least=300 // agents, beta=0.5, overhead=0.0) for agents in (6, 3))
HIGH, LOW = (4.0, 1.0), (1.0, 4.0)  # S = 1, so the policy requests I_max. S = 0, so it requests I_min

ratio = st.floats(0, CONVEX)
window = st.lists(ratio, min_size=1, max_size=10).map(tuple)
windows = st.dictionaries(st.integers(0, 20), window, min_size=1, max_size=8)


@st.composite
def bounds(draw):
    most = draw(st.integers(1, 500))
    return Bounds(
        most=most, least=draw(st.integers(1, most)), beta=draw(st.floats(0, 1)), overhead=draw(st.floats(0, 1e6))
    )


@st.composite
def histories(draw):
    number = st.floats(-1e6, 1e6)
    signal = st.builds(Signal, largest=number, smallest=number, trace=number, square=number)
    return draw(st.lists(st.dictionaries(st.integers(0, 3), signal, min_size=1), max_size=6))


def rng(*address):
    return generator(7, *address)


def remembered(rounds, rule, window=10, returns=()):
    history = ScalingHistory()
    for signals, mean in itertools.zip_longest(rounds, returns):
        history = add_round(history, signals, window, rule, mean)
    return history


def chosen(rule, history, limits, *address):
    return rollouts(rule, history, limits, rng(*address))


def asked(*policies):
    return ScalingHistory(convexity=dict(enumerate(policies)))


def curved(*ratios):
    """The signals of groups 0, 1, ... in a round with these ratios."""
    return {group: Signal(largest=ratio, smallest=-1.0) for group, ratio in enumerate(ratios)}


def noisy(trace, square):
    return {0: Signal(trace=trace, square=square)}


# --- the signal ---


@pytest.mark.parametrize(
    ("largest", "smallest", "expected"),
    [
        (6.0, -2.0, 3.0),
        (5.0, 0.0, CONVEX),  # a minimum
        (5.0, 1.0, CONVEX),
        (1.0, -1e-9, CONVEX),  # nearly one
        (1e300, -1e-300, CONVEX),
        (0.0, -2.0, 0.0),  # a maximum
        (-1.0, -2.0, 0.0),
        (0.0, 0.0, 1.0),  # flat
    ],
)
def test_the_ratio_is_largest_over_smallest_eigenvalue(largest, smallest, expected):
    assert convexity(Signal(largest=largest, smallest=smallest)) == expected


@given(st.floats(-1e300, 1e300), st.floats(0, 1e300))
def test_the_ratio_is_finite_and_bounded(smallest, gap):
    assert 0 <= convexity(Signal(largest=smallest + gap, smallest=smallest)) <= CONVEX


def test_the_ratio_without_eigenvalues_is_refused():
    with pytest.raises(ValueError, match="curvature"):
        convexity(Signal(trace=1.0, square=1.0))


def test_share_is_rank_of_ratio_in_window():
    assert share((2.0, 10.0, 4.0)) == 0.75  # (10 - 4) / (10 - 2)
    assert share((4.0, 2.0, 10.0)) == 0.0
    assert share((4.0, 10.0, 2.0)) == 1.0


@pytest.mark.parametrize("flat", [(3.0,), (3.0, 3.0, 3.0)])
def test_a_window_that_shows_no_change_explores(flat):
    assert share(flat) == 1.0


# --- window ---


def test_a_group_keeps_its_last_ratios_in_order():
    history = remembered([curved(float(value)) for value in range(1, 6)], "paper", window=3)
    assert history.convexity == {0: (3.0, 4.0, 5.0)}


def test_gone_group_is_forgotten_and_new_is_empty():
    history = remembered([curved(1.0, 2.0), curved(3.0)], "paper")
    assert history.convexity == {0: (1.0, 3.0)}
    assert add_round(history, curved(5.0, 6.0), 10, "paper").convexity == {0: (1.0, 3.0, 5.0), 1: (6.0,)}


def test_a_round_that_measured_nothing_changes_nothing():
    history = remembered([curved(1.0), {0: Signal(trace=2.0, square=1.0)}], "shuffled:paper")
    assert add_round(history, {0: Signal()}, 10, "shuffled:paper") == history


def test_sharing_switch_empties_windows_but_keeps_noise():
    history = remembered([{0: Signal(largest=1.0, smallest=-1.0, trace=2.0, square=1.0)}], "shuffled:paper")
    assert clear_windows(history) == msgspec.structs.replace(history, convexity={})
    assert history.convexity and history.past and history.trace == 2.0


def test_noise_is_weighted_mean_of_rounds():
    signals = [(4.0, 1.0), (10.0, -2.0), (1.0, 3.0)]
    history = remembered([noisy(*pair) for pair in signals], "gns")
    weights = [DECAY**2, DECAY, 1.0]
    assert history.trace == pytest.approx(np.average([trace for trace, _ in signals], weights=weights))
    assert history.square == pytest.approx(np.average([square for _, square in signals], weights=weights))
    assert history.rounds == 3


def test_group_noise_is_summed_before_quotient():
    history = remembered([{0: Signal(trace=10.0, square=1.0), 3: Signal(trace=2.0, square=3.0), 5: Signal()}], "gns")
    assert noise_scale(history) == pytest.approx(12 / 4)


def test_only_a_shuffled_control_pays_for_the_past():
    rounds = [curved(float(value)) for value in range(HISTORY + 20)]
    for rule in RULES:
        assert len(remembered(rounds, rule).past) == (HISTORY if rule.startswith("shuffled:") else 0)
    past = remembered(rounds, "shuffled:paper").past
    assert past[0] == ScalingSignals(convexity={0: 20.0}) and past[-1] == ScalingSignals(convexity={0: HISTORY + 19.0})


@given(histories(), st.sampled_from(RULES))
def test_the_memory_survives_the_ledger(rounds, rule):
    history = remembered(rounds, rule)
    assert msgspec.json.decode(msgspec.json.encode(history), type=ScalingHistory) == history


@given(histories(), st.randoms(use_true_random=False))
def test_order_of_group_names_changes_no_byte(rounds, random):
    mixed = [dict(random.sample(list(signals.items()), len(signals))) for signals in rounds]
    memories = [remembered(each, "shuffled:paper") for each in (rounds, mixed)]
    assert msgspec.json.encode(memories[0]) == msgspec.json.encode(memories[1])


# --- every rule ---


BY_NOISE = {"gns", "shuffled:gns", "tradeoff", "shuffled:tradeoff"}


@pytest.mark.parametrize("rule", sorted(set(RULES) - BY_NOISE))
def test_unobserved_round_gets_maximum_rollouts(rule):
    assert chosen(rule, ScalingHistory(), PAPER) == 50


@pytest.mark.parametrize("overhead, first", [(20.0, 20), (9.6, 10), (3.0, 9), (98.0, 50)])
@pytest.mark.parametrize("rule", sorted(BY_NOISE))
def test_unknown_noise_gives_rollouts_the_overhead_cost(rule, overhead, first):
    assert chosen(rule, ScalingHistory(), dataclasses.replace(PAPER, overhead=overhead)) == first


def test_a_rule_names_the_summaries_that_learners_compute():
    assert set(SCALING_RULES) == set(RULES)
    assert needs("constant") == ()
    assert needs("paper") == needs("offset") == needs("shuffled:paper") == needs("shuffled:offset") == ("curvature",)
    assert needs("gns") == needs("shuffled:gns") == needs("tradeoff") == needs("shuffled:budget") == ("noise",)
    assert needs("adapt") == needs("shuffled:adapt") == ()


@given(histories(), bounds(), st.sampled_from(RULES))
def test_round_gets_whole_rollouts_within_bounds(rounds, limits, rule):
    got = chosen(rule, remembered(rounds, rule), limits)
    assert type(got) is int
    assert limits.least <= got <= limits.most


def test_constant_gives_the_most_whatever_is_measured():
    assert chosen("constant", asked(LOW, LOW), PAPER) == 50


# --- convexity ---


@pytest.mark.parametrize(
    ("policies", "literal", "offset"),
    [
        # S = 0.5, 0.25, 0 -> I = 25, 12.5, 9 (clipped from 0). Mean 15.5 < 0.5 * (50 - 9) = 20.5, half up.
        (((1.0, 5.0, 3.0), (0.0, 8.0, 6.0), (2.0, 9.0)), 16, 16),
        # S = 0.8, 0.25, 0.1 -> I = 40, 12.5, 9. Mean 20.5 = the literal threshold. Under the other, 9 + 20.5.
        (((0.0, 10.0, 2.0), (0.0, 8.0, 6.0), (0.0, 10.0, 9.0)), 40, 21),
    ],
)
def test_worked_rounds_get_average_or_largest_wish(policies, literal, offset):
    assert (chosen("paper", asked(*policies), PAPER), chosen("offset", asked(*policies), PAPER)) == (literal, offset)


@pytest.mark.parametrize(
    ("policies", "limits", "average", "threshold", "expected"),
    [(6, SIX, 15.3, 20.8, 92), (4, SIX, 18.75, 20.8, 113), (2, SIX, 29.2, 20.8, 300), (3, THREE, 27.8, 16.7, 300)],
)
def test_one_outlier_under_the_literal_threshold(policies, limits, average, threshold, expected):
    """Average and threshold by hand, for I_max 50 and I_min 50 / N. The rollouts are six times as many."""
    lowest = 50 * limits.least / limits.most
    assert (50 + (policies - 1) * lowest) / policies == pytest.approx(average, abs=0.05)
    assert 0.5 * (50 - lowest) == pytest.approx(threshold, abs=0.05)
    assert expected == (300 if average >= threshold else pytest.approx(6 * average, abs=0.6))
    assert chosen("paper", asked(HIGH, *[LOW] * (policies - 1)), limits) == expected


@given(st.lists(window, min_size=1, max_size=3))
def test_with_three_agents_the_literal_rule_never_averages(policies):
    largest = max(min(max(300 * share(window), 100), 300) for window in policies)
    assert chosen("paper", asked(*policies), THREE) == math.floor(largest + 0.5)


@pytest.mark.parametrize("rule", ["offset", "paper"])
@given(st.integers(2, 12), st.integers(1, 100), st.integers(50, 500), st.floats(0, 1))
def test_one_outlier_triggers_the_maximum_up_to_beta(rule, policies, least, span, beta):
    """Up to 1 / K, and under the literal threshold beta must make up for the fewest rollouts too."""
    needed = 1 / policies + (least / span if rule == "paper" else 0.0)
    if math.isclose(beta, needed, rel_tol=1e-9):
        beta = needed * 1.01
    limits = Bounds(most=least + span, least=least, beta=beta, overhead=0.0)
    got = chosen(rule, asked(HIGH, *[LOW] * (policies - 1)), limits)
    assert (got < limits.most) == (beta > needed)


@pytest.mark.parametrize("policies", [2, 4, 8])
def test_beta_of_one_over_k_lets_outlier_trigger(policies):
    limits = Bounds(most=300, least=60, beta=1 / policies, overhead=0.0)
    assert chosen("offset", asked(HIGH, *[LOW] * (policies - 1)), limits) == 300


convex_rules = pytest.mark.parametrize("rule", ["paper", "offset"])


@convex_rules
@given(windows, bounds(), st.data())
def test_policy_that_asks_more_never_shrinks_round(rule, policies, limits, data):
    group = data.draw(st.sampled_from(sorted(policies)))
    *earlier, last = policies[group]
    lower = data.draw(st.floats(min(policies[group]), last))  # within the window: C_max and C_min stay, or S becomes 1
    more = {**policies, group: (*earlier, max(policies[group]), lower)}
    less = {**policies, group: (*earlier, max(policies[group]), last)}
    assert share(more[group]) >= share(less[group])
    before, after = (chosen(rule, ScalingHistory(convexity=each), limits) for each in (less, more))
    assert after >= before


@convex_rules
@given(windows, bounds(), st.data())
def test_order_and_names_of_groups_do_not_matter(rule, policies, limits, data):
    mixed = dict(enumerate(data.draw(st.permutations(list(policies.values())))))
    before, after = (chosen(rule, ScalingHistory(convexity=each), limits) for each in (policies, mixed))
    assert after == before


def test_group_order_does_not_matter_at_threshold():
    # S = 0.9, 0.8, 0.4 of 51 rollouts: the average is 35.7, or in floating point a little less in some orders.
    limits = Bounds(most=51, least=1, beta=35.7 / 50, overhead=0.0)
    policies = [(0.0, 1.0, last) for last in (0.1, 0.2, 0.6)]
    assert {chosen("paper", asked(*order), limits) for order in itertools.permutations(policies)} == {46}


@convex_rules
@given(
    st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 500).map(float), min_size=1, max_size=10), min_size=1),
    bounds(),
    st.integers(-20, 0),
)
def test_the_unit_of_curvature_does_not_matter(rule, policies, limits, power):
    scaled = {group: tuple(value * 2.0**power for value in window) for group, window in policies.items()}
    before, after = (
        chosen(rule, ScalingHistory(convexity={group: tuple(window) for group, window in each.items()}), limits)
        for each in (policies, scaled)
    )
    assert after == before


def driven(rule, limits, policies, ratios):
    """The rollouts of every round with the given ratios ``[rounds, policies]``, once the windows are full."""
    history, got = ScalingHistory(), []
    for index, row in enumerate(ratios[:, :policies]):
        history = add_round(history, curved(*row.tolist()), 10, rule)
        got.append(chosen(rule, history, limits, index))
    return got[10:]


def noise(rounds):
    """Random positive ratios without information, with the spread of a normal distribution."""
    return 100 + np.random.default_rng(3).standard_normal((rounds, 6))


@pytest.mark.parametrize(("policies", "mean"), [(6, 41.4), (4, 38.6), (2, 32.8)])
def test_pure_noise_saves_fifth_of_rollouts(policies, mean):
    got = driven("paper", SIX, policies, noise(3000))
    assert np.mean(got) / 6 == pytest.approx(mean, abs=1)


@pytest.mark.parametrize("policies", [6, 4, 2])
def test_offset_threshold_on_noise_gives_thirty_rollouts(policies):
    got = driven("offset", SIX, policies, noise(3000))
    assert 29 < np.mean(got) / 6 < 32


# --- gradient noise ---


def improvement_per_dollar(rollouts, scale, overhead):
    return 1 / math.sqrt(1 + scale / rollouts) / (overhead + rollouts)


def optimum(scale, overhead):
    return (math.sqrt(scale**2 + 8 * scale * overhead) - scale) / 4


@pytest.mark.parametrize(
    ("scale", "overhead", "expected"),
    # By hand: b* = 1, 5.4, 17.6, and nearly the overhead.
    [(2.0, 2.0, 1), (16.0, 9.0, 5), (50.0, 30.0, 18), (1e9, 10.0, 10)],
)
def test_rollouts_have_best_direction_per_dollar(scale, overhead, expected):
    limits = Bounds(most=50, least=1, beta=0.5, overhead=overhead)
    assert chosen("gns", ScalingHistory(trace=scale * 3, square=3.0, rounds=1), limits) == expected


@pytest.mark.parametrize(("scale", "overhead"), list(itertools.product([0.7, 12.0, 3e3], [0.4, 9.9, 200.0])))
def test_closed_form_maximises_improvement_per_dollar(scale, overhead):
    best = minimize_scalar(
        lambda log: -improvement_per_dollar(math.exp(log), scale, overhead), bounds=(-10, 15), method="bounded"
    )
    assert math.exp(best.x) == pytest.approx(optimum(scale, overhead), rel=1e-3)


def test_gradient_cosine_falls_with_noise_as_predicted():
    rng, true = np.random.default_rng(1), np.zeros(2000)
    true[0] = 1.0
    for scale in (1.0, 10.0, 100.0):
        noisy_ones = true + rng.normal(0, math.sqrt(scale / 2000), (50, 2000))
        cosines = noisy_ones[:, 0] / np.linalg.norm(noisy_ones, axis=1)
        assert cosines.mean() == pytest.approx(1 / math.sqrt(1 + scale), abs=0.02)


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e4), st.integers(1, 60), st.integers(0, 60))
def test_no_other_rollouts_improve_more_per_dollar(scale, overhead, least, more):
    limits = Bounds(most=least + more, least=least, beta=0.5, overhead=overhead)
    got = chosen("gns", ScalingHistory(trace=scale, square=1.0, rounds=1), limits)
    tried = [improvement_per_dollar(each, scale, overhead) for each in range(limits.least, limits.most + 1)]
    assert improvement_per_dollar(got, scale, overhead) == pytest.approx(max(tried), rel=1e-9)


# Pure noise gets as many rollouts as the rest of a round costs, a gradient without noise the fewest. An unbiased
# estimate of zero may be negative.
@pytest.mark.parametrize("trace, square, expected", [(5.0, 0.0, 20), (5.0, -2.0, 20), (0.0, 2.0, 9), (-1.0, 2.0, 9)])
def test_pure_noise_and_no_noise_by_hand(trace, square, expected):
    limits = Bounds(most=50, least=9, beta=0.5, overhead=20.0)
    assert chosen("gns", remembered([noisy(trace, square)], "gns"), limits) == expected


def test_one_round_without_a_gradient_is_averaged_away():
    limits = Bounds(most=50, least=1, beta=0.5, overhead=40.0)
    signals = [noisy(16.0, 1.0)] * 20 + [noisy(16.0, -0.1)]
    history = remembered(signals, "gns")
    average = np.average([1.0] * 20 + [-0.1], weights=DECAY ** np.arange(20, -1, -1))
    assert chosen("gns", history, limits) == round(optimum(16 / average, 40.0)) == 15


# --- the shuffled controls ---


def shuffled_rules():
    return [rule for rule in RULES if rule.startswith("shuffled:")]


@pytest.mark.parametrize("rule", shuffled_rules())
def test_control_repeats_and_reads_only_the_past(rule):
    signals = np.random.default_rng(1).uniform(1, 9, (30, 4))
    history = remembered(
        [{0: Signal(largest=a, smallest=-b, trace=c, square=d)} for a, b, c, d in signals.tolist()],
        rule,
        returns=signals[:, 0].tolist(),
    )
    limits = Bounds(most=500, least=1, beta=0.5, overhead=90.0, left=9100.0, rounds=100, target=10.0)
    # Other present values in windows of the same length. The true rule would depend on them.
    other = msgspec.structs.replace(history, convexity={0: (1.0,) * 10}, trace=1.0, square=1e-9, rounds=3)
    got = [chosen(rule, history, limits, address) for address in range(20)]
    assert got == [chosen(rule, history, limits, address) for address in range(20)]
    assert got == [chosen(rule, other, limits, address) for address in range(20)]
    assert len(set(got)) > 1


def test_control_takes_every_past_round_equally_likely():
    # The ratios 0, 1, 2 in a window of three: each, if last, gives S = 1, 1/2, 0. The true ratio is always the last.
    history = remembered([curved(0.0), curved(1.0), curved(2.0)], "shuffled:paper")
    limits = Bounds(most=100, least=1, beta=1.0, overhead=0.0)
    counts = Counter(chosen("shuffled:paper", history, limits, address) for address in range(1500))
    assert set(counts) == {1, 50, 100}
    assert all(abs(count - 500) < 4 * math.sqrt(1500 * 2 / 9) for count in counts.values())
    assert chosen("paper", history, limits) == 1


def test_order_of_past_does_not_matter_on_average():
    """A control's result does not depend on the order of values: rising and falling ratios give the same."""
    limits = Bounds(most=1000, least=1, beta=1.0, overhead=0.0)
    means = []
    for values in (range(1, 41), range(40, 0, -1)):
        history = remembered([curved(float(value)) for value in values], "shuffled:paper")
        means.append(np.mean([chosen("shuffled:paper", history, limits, address) for address in range(2000)]))
    assert chosen("paper", remembered([curved(float(v)) for v in range(1, 41)], "paper"), limits) == 1
    assert chosen("paper", remembered([curved(float(v)) for v in range(40, 0, -1)], "paper"), limits) == 1000
    # By symmetry S has the mean 1/2. Its standard deviation is below 0.5.
    assert means == pytest.approx([500, 500], abs=4 * 500 / math.sqrt(2000))


@pytest.mark.parametrize(
    ("rounds", "beta", "expected"),
    [
        # A group that has just returned has one ratio and explores, for any number of rounds to draw from.
        ([curved(float(v), float(v)) for v in range(30)] + [curved(30.0), curved(31.0, 31.0)], 0.0, {90}),
        # Each group's ratios never change, so it explores. A ratio of another group in its window would show.
        ([curved(1.0, 50.0, 2.0)] * 12 + [curved(1.0, 50.0)] * 3, 1.0, {90}),
        # Two policies with the same ratios request the same in every order, so average and maximum are equal.
        ([curved(float(v), float(v)) for v in range(10)], 1.0, {1, *range(10, 91, 10)}),
    ],
)
def test_a_control_keeps_windows_groups_and_rounds(rounds, beta, expected):
    limits = Bounds(most=90, least=1, beta=beta, overhead=0.0)
    history = remembered(rounds, "shuffled:paper")
    assert {chosen("shuffled:paper", history, limits, address) for address in range(300)} == expected


@pytest.mark.parametrize("policies", [6, 2])
def test_control_equals_its_rule_on_noise(policies):
    ratios = noise(1200)
    rule, control = (driven(name, SIX, policies, ratios) for name in ("paper", "shuffled:paper"))
    assert np.mean(control) / 6 == pytest.approx(np.mean(rule) / 6, abs=1.2)


# --- prices ---


@pytest.mark.parametrize("storage", ["standard", "express"])
@pytest.mark.parametrize("agents", [1, 6])
def test_overhead_is_round_bill_over_rollout_bill(storage, agents):
    """Requests by hand: one post-processing function, a critic and a policy for each agent."""
    prices = load_prices()
    learners = 1 + 2 * agents
    puts = 2 + agents + 2 * agents
    rollout, beside = Meter(), Meter(puts=puts)
    rollout = rollout.add_invocation("actor", 1769, 0.0, 0.0, Usage(puts=1, gets=learners))
    for _ in range(learners):
        beside = beside.add_invocation("learner", 1769, 0.0, 0.0, Usage())
    expected = bill(beside, prices, "arm", storage).total / bill(rollout, prices, "arm", storage).total
    assert list_overhead(prices, agents, PPO_STAGES, storage) == pytest.approx(float(expected), rel=1e-15)


def test_the_overhead_of_six_agents_at_worked_prices():
    # 13 functions, 20 PUTs: (13 * 2e-7 + 20 * 5e-6) / (5e-6 + 2e-7 + 13 * 4e-7) = 1.026e-4 / 1.04e-5
    prices = load_prices()
    standard = msgspec.structs.replace(
        prices.s3.standard, put_per_thousand=Decimal("0.005"), get_per_thousand=Decimal("0.0004")
    )
    prices = msgspec.structs.replace(
        prices,
        s3=msgspec.structs.replace(prices.s3, standard=standard),
        lambda_=msgspec.structs.replace(prices.lambda_, requests_per_million=Decimal("0.20")),
    )
    assert list_overhead(prices, 6, PPO_STAGES, "standard") == pytest.approx(1026 / 104, rel=1e-15)
