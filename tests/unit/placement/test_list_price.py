"""The cost of a round at list prices: requests, commits and nominal compute, counted by hand."""

from dataclasses import replace

import pytest
from planned_rounds import PlannedRound, layout

from marless.coordinator.core.state import NO_INPUTS, RunInputs
from marless.coordinator.placement.list_price import ITEM_BYTES, PricedPlacement, RoundPrice, Tariff, list_price
from marless.coordinator.pricing.bill import Charge, Meter, bill
from marless.coordinator.pricing.prices import load_prices
from marless.functions.algorithms.ppo.specs import PPO_STAGES
from marless.functions.messages.learner import FrozenNetworks
from marless.functions.messages.message import Ref
from marless.functions.messages.team import Team

PRICES = load_prices()
TARIFF = Tariff.of(PRICES)
# Three agents and 200 steps. 6 ms of a vCPU with 1,769 MB: 200 steps of three agents, 10 us each.
ROUND = PlannedRound(
    agents=3,
    members={0: 1, 1: 1, 2: 1},
    stages=PPO_STAGES,
    rollouts=50,
    rollout_steps=200,
    most_rounds=1,
    rollout_bytes=0.0,
    policy_bytes=0.0,
    learner_bytes=0.0,
    ledger_bytes=ITEM_BYTES,
    width=1,
)
PACKED = PricedPlacement("packed", 1, False, 50)
WHOLE = PricedPlacement("whole", 1, True, 50)
COMPUTE = Charge(mb_ms=6 * 1769)
# The item of a run is counted as 4 KB and a little around it, twice in a round: before and after its learners.
COMMIT = Meter().add_commit(4096)


def price_of(priced, workload=ROUND, inputs=NO_INPUTS):
    return list_price(priced, lambda rollouts: layout(replace(workload, rollouts=rollouts), inputs), TARIFF)


def dollars(meter):
    return float(bill(meter, PRICES, "arm", "standard").total)


def test_extra_packed_rollout_costs_invocation_trajectory_and_steps():
    # It reads the policies and its trajectory is read by one learner: two GETs.
    rollout = Meter(actor=Charge(invocations=1), puts=1, gets=2)
    assert price_of(PACKED).rollout == pytest.approx(dollars(rollout) + compute(), rel=1e-9)


def compute():
    return dollars(Meter(actor=COMPUTE))


def test_packed_rest_is_one_learner_and_two_commits():
    rest = Meter(learner=Charge(invocations=1), puts=2, gets=2) + COMMIT + COMMIT
    price = price_of(PACKED)
    assert price.overhead * price.rollout == pytest.approx(dollars(rest), rel=1e-9)


@pytest.mark.parametrize("rule", ["packed", "fused"])
def test_difference_learners_read_base_instead_of_policies(rule):
    base = RunInputs(base=FrozenNetworks(networks=Ref(key="base", sha256="", size=10**6), team=Team(groups=(0, 1, 2))))
    assert price_of(PACKED._replace(rule=rule), inputs=base) == price_of(PACKED._replace(rule=rule))


def test_a_rollout_of_whole_costs_its_steps_only():
    price = price_of(WHOLE)
    assert price.rollout == pytest.approx(compute(), rel=1e-9)
    assert price.overhead * price.rollout == pytest.approx(dollars(Meter(learner=Charge(invocations=1)) + COMMIT))


def test_auto_has_the_price_of_the_cheapest_placement():
    auto = price_of(PACKED._replace(rule="auto"))
    others = [price_of(PricedPlacement(rule, 50, True, 50)) for rule in ("split", "fused", "packed", "whole")]
    assert auto == min(others, key=lambda price: price.dollars(50))
    assert auto == price_of(WHOLE)


def test_rest_costs_more_with_more_learners():
    by_rule = {rule: price_of(PACKED._replace(rule=rule)).overhead for rule in ("packed", "fused", "split")}
    assert by_rule["packed"] < by_rule["fused"] < by_rule["split"]
    shared = price_of(PACKED._replace(rule="fused"), replace(ROUND, members={0: 3}))
    assert shared == price_of(PACKED)


def test_a_round_costs_its_rest_and_its_rollouts():
    assert RoundPrice(overhead=3.0, rollout=0.5).dollars(5) == 4.0
