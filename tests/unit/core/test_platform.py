"""A platform's abilities: each decides exactly one thing."""

from dataclasses import replace

import pytest
from simulated import World, make_plan, on_lambda, promising

from marless.coordinator.config.loading import load
from marless.coordinator.core import budget
from marless.coordinator.core.apply import apply
from marless.coordinator.core.events import AttemptEnded, Reported
from marless.coordinator.core.planning import next_placement
from marless.coordinator.core.state import State
from marless.coordinator.placement.coordination_cost import LOCAL
from marless.coordinator.platform import Platform
from marless.functions import keys
from marless.functions.messages.exchange import Report
from marless.functions.messages.usage import Usage

ABILITIES = {
    "startup_counts_to_timeout": False,
    "sizes_fixed": True,
    "bodies_leave_region": True,
    "items_padded": True,
    "requests_billed": True,
    "messages_limited": True,
    "functions_outlive_driver": True,
    "latency": "aws",
    "idle_slots_free": False,
}
# A placement with answers too large for deployed functions, with a hundred rounds in a task.
PLAN = make_plan(
    *("placement.rule=whole", "placement.chain=100", "evaluation.every=100", "stop.rounds=1"),
    *("actors.rollouts=100", "actors.num_envs=64", "placement.inline_objects=true"),
)


@pytest.fixture(scope="module")
def ended():
    return World(PLAN).finish()


def billed_ms(plan):
    """Return the billed time of a report of 5 s with a time-out of 1 s."""
    late = Report(id="late", attempt=0, function="actor", outcome="answered", duration_ms=5000.0)
    return budget.invocation_of(plan, late, 1.0, 1769, Usage()).billed_ms


def meter_of_a_report(plan):
    """Return whether one report is billed for logs, and its bytes that left the region."""
    answer = Report(id="answer", attempt=0, function="actor", outcome="answered", body=bytes(70))
    meter = apply(plan, State(), Reported((AttemptEnded("", answer, None),))).meter
    return meter.log_bytes > 0, meter.bytes_out


def lists(plan):
    return World(plan).driver().state.meter.lists


def keeps_half_written(plan):
    """Return whether a driver keeps the object of a task that the last driver dispatched and that has not reported."""
    world = World(plan)
    world.driver().step()
    key = f"{keys.output_prefix(0, 'describe')}.half"
    world.storage.put(key, b"")
    world.driver()
    return key in world.storage


def halves(plan, state):
    """Return whether two groups are halved where four slots wait for them."""
    balanced = promising(replace(plan, config=make_plan("placement.rule=balanced").config), concurrency=4)
    return len(next_placement.configured_placement(balanced, state).packs) == 4


def facts(plan, state):
    return {
        "startup_counts_to_timeout": billed_ms(plan),
        "sizes_fixed": next_placement.terms(plan, state).fixed,
        "bodies_leave_region": meter_of_a_report(plan),
        "items_padded": (budget.item_bytes(plan, 10), budget.written_bytes(plan, 10, 20)),
        "requests_billed": lists(plan),
        "messages_limited": next_placement.configured_placement(plan, state).rounds,
        "functions_outlive_driver": keeps_half_written(plan),
        "latency": next_placement.coordination(plan, state) != LOCAL,
        "idle_slots_free": halves(plan, state),
    }


@pytest.mark.parametrize("ability", ABILITIES)
def test_platform_ability_decides_only_its_own_fact(ability, ended):
    here = facts(PLAN, ended)
    there = facts(promising(PLAN, **{ability: ABILITIES[ability]}), ended)
    assert {name for name in here if here[name] != there[name]} == {ability}


def test_deployed_functions_have_all_abilities_of_the_cloud(ended):
    assert Platform().on_lambda() == Platform(**ABILITIES)
    here, there = facts(PLAN, ended), facts(on_lambda(PLAN), ended)
    # A second is all that a task with a time-out of one may be billed here. A table adds 100 bytes and the run's name.
    assert (here["startup_counts_to_timeout"], there["startup_counts_to_timeout"]) == (1000, 5000)
    assert (here["items_padded"], there["items_padded"]) == ((10, 10), (111, 121))
    assert (here["bodies_leave_region"], there["bodies_leave_region"]) == ((False, 0), (True, 70))
    assert all(here[name] != there[name] for name in ABILITIES)


@pytest.mark.parametrize("sharing", ["none", "all"])
@pytest.mark.parametrize("detached", [False, True])
def test_cloud_default_costs_one_learner_per_group(sharing, detached):
    """To the last request, byte and millisecond, if every group has a slot."""

    def spent(rule, slots):
        settings = (f"sharing.rule={sharing}", f"placement.rule={rule}", "stop.rounds=3")
        plan = on_lambda(make_plan(*settings), concurrency=slots, can_inline=not detached)
        state = World(plan).finish()
        return state.meter, budget.dollars(plan, state.meter)

    assert load(None, []).placement.rule == "balanced"
    for slots in (2, 4, 1000):
        assert spent("balanced", slots) == spent("fused", slots)
    # Two groups on one slot learn in one function.
    assert spent("balanced", 1)[1] <= spent("fused", 1)[1]
    assert (spent("balanced", 1)[1] < spent("fused", 1)[1]) == (sharing == "none")
