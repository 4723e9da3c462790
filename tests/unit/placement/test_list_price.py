"""What a round costs at list prices: requests, commits and nominal compute, counted by hand."""

from dataclasses import replace

import pytest

from marless.coordinator.placement.list_price import PricedRound, RoundPrice, list_price
from marless.coordinator.pricing.bill import Charge, Meter, bill
from marless.coordinator.pricing.planning_prices import Tariff
from marless.coordinator.pricing.prices import load_prices
from marless.functions.algorithms.ppo.specs import PPO_STAGES

PRICES = load_prices()
TARIFF = Tariff.of(PRICES)
# Three agents, 8 environments of 25 steps; 6 ms of a vCPU with 1,769 MB: 200 steps of three agents, 10 us each.
ROUND = PricedRound(
    rule="packed",
    rollouts_per_invocation=1,
    inline_objects=False,
    members=(1, 1, 1),
    stages=PPO_STAGES,
    updates=1,
    steps=200,
    most=50,
)
COMPUTE = Charge(mb_ms=6 * 1769)
# The item of a run is counted as 4 KB and a little around it, twice in a round: before and after its learners.
COMMIT = Meter().add_commit(4096)


def dollars(meter):
    return float(bill(meter, PRICES, "arm", "standard").total)


def test_one_more_rollout_of_packed_is_an_invocation_its_trajectory_and_its_steps():
    # It reads the policies and its trajectory is read by one learner: two GETs.
    rollout = Meter(actor=Charge(invocations=1), puts=1, gets=2)
    assert list_price(ROUND, TARIFF).rollout == pytest.approx(dollars(rollout) + compute(), rel=1e-9)


def compute():
    return dollars(Meter(actor=COMPUTE))


def test_the_rest_of_a_packed_round_is_one_learner_with_its_state_and_two_commits():
    rest = Meter(learner=Charge(invocations=1), puts=2, gets=2) + COMMIT + COMMIT
    price = list_price(ROUND, TARIFF)
    assert price.overhead * price.rollout == pytest.approx(dollars(rest), rel=1e-9)


@pytest.mark.parametrize(("rule", "learners"), [("packed", 1), ("fused", 3)])
def test_each_learner_reads_the_base_of_its_networks(rule, learners):
    without, with_base = (list_price(replace(ROUND, rule=rule, base_bytes=size), TARIFF) for size in (0.0, 1e6))
    assert with_base.dollars(1) - without.dollars(1) == pytest.approx(dollars(Meter(gets=learners)), rel=1e-6)


def test_a_rollout_of_whole_costs_its_steps_only():
    price = list_price(replace(ROUND, rule="whole", inline_objects=True), TARIFF)
    assert price.rollout == pytest.approx(compute(), rel=1e-9)
    assert price.overhead * price.rollout == pytest.approx(dollars(Meter(learner=Charge(invocations=1)) + COMMIT))


def test_auto_has_the_price_of_the_cheapest_placement():
    auto = list_price(replace(ROUND, rule="auto"), TARIFF)
    others = [
        list_price(replace(ROUND, rule=rule, inline_objects=True, rollouts_per_invocation=50), TARIFF)
        for rule in ("split", "fused", "packed", "whole")
    ]
    assert auto == min(others, key=lambda price: price.dollars(50))
    assert auto == list_price(replace(ROUND, rule="whole", inline_objects=True), TARIFF)


def test_the_rest_is_dearer_the_more_learners_there_are():
    by_rule = {rule: list_price(replace(ROUND, rule=rule), TARIFF).overhead for rule in ("packed", "fused", "split")}
    assert by_rule["packed"] < by_rule["fused"] < by_rule["split"]
    shared = list_price(replace(ROUND, rule="fused", members=(3,)), TARIFF)
    assert shared == list_price(ROUND, TARIFF)


def test_a_round_costs_its_rest_and_its_rollouts():
    assert RoundPrice(overhead=3.0, rollout=0.5).dollars(5) == 4.0
