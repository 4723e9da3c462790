import re
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import World, answered, failed, make_plan, promising, report

from marless.coordinator.core import budget
from marless.coordinator.core.round_graph import in_flight
from marless.coordinator.core.round_nodes import EXTRA_GETS, MOST_PUTS
from marless.coordinator.core.state import Slot, State, WorkItem
from marless.coordinator.pricing.bill import Meter
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.exchange import Report
from marless.functions.messages.usage import Usage

OUTCOMES = ("well", "slow", "timeout", "crash", "throttled", "failed", "doubled", "late timeout")


def work_item(function, memory_mb=1769, gets=0):
    return WorkItem(function=function, memory_mb=memory_mb, kind="describe", gets=gets)


def most(plan, state):
    waiting = [(slot.item, slot.timeout_s) for slot in state.slots.values() if slot.waiting]
    return budget.dollars(plan, budget.add_lost(plan, state.meter, waiting))


class Misfortune:
    """A script that cycles through `outcomes`. `beyond` sums the cost of second deliveries."""

    def __init__(self, outcomes):
        self.outcomes, self.turn, self.beyond = outcomes, 0, Meter()

    def __call__(self, function, request):
        outcome = self.outcomes[self.turn % len(self.outcomes)]
        self.turn += 1
        limit_ms = request.timeout_s * 1000
        usage = Usage(puts=MOST_PUTS, gets=EXTRA_GETS + len(getattr(request, "policies", ())))
        match outcome:
            case "slow":
                return [answered(function, request, usage=usage, duration_ms=limit_ms * 0.9, init_ms=limit_ms * 0.09)]
            case "timeout":
                return [report(function, request, outcome="timeout", duration_ms=limit_ms)]
            case "late timeout":
                return [report(function, request, outcome="timeout", duration_ms=limit_ms + 3456.7, init_ms=12.3)]
            case "crash":
                return [report(function, request, outcome="crash", duration_ms=limit_ms / 2)]
            case "throttled":
                return [report(function, request, outcome="throttled", duration_ms=0.0)]
            case "failed":
                return [failed(function, request)]
            case "doubled":
                self.beyond = self.beyond.add_invocation(function, 1769, 10.0, 0.0, Usage(puts=MOST_PUTS, gets=1))
                return [answered(function, request)] * 2
        return [answered(function, request)]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    cap=st.sampled_from(["0.0002", "0.0005", "0.001", "0.003"]),
    outcomes=st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=12),
    placement=st.sampled_from(["packed", "split", "whole", "auto"]),
    inline_objects=st.sampled_from(["true", "false"]),
    rollouts=st.integers(1, 3),
    kills=st.sets(st.integers(0, 120), max_size=4),
    summed=st.integers(0, 2),
)
def test_the_bill_never_passes_the_cap(cap, outcomes, placement, inline_objects, rollouts, kills, summed):
    placement_settings = (
        f"placement.rule={placement}",
        f"placement.inline_objects={inline_objects}",
        f"actors.rollouts={rollouts}",
        f"pipeline.micro_batch={summed}",
        "algorithm.epochs=1",
        "algorithm.num_minibatches=1",
    )
    plan = make_plan(f"stop.dollars={cap}", "stop.rounds=12", *placement_settings, "attempts=4", "checkpoint_every=2")
    script = Misfortune(outcomes)
    world = World(plan, script)
    driver = world.driver()
    for step in range(1500):
        if step in kills:
            driver = world.driver()
        going = driver.step()
        # A second delivery is an unrequested second execution: the one cost that no reservation can cover.
        assert most(plan, driver.state) <= Decimal(cap) + budget.dollars(plan, script.beyond)
        if not going:
            break
    assert driver.state.status in ("finished", "stopped", "failed")


@settings(max_examples=30, deadline=None, derandomize=True)
@given(cap=st.sampled_from(["0.0003", "0.0006", "0.001"]), share=st.floats(0.05, 1.0))
def test_attempts_up_to_timeout_stay_within_cap(cap, share):
    plan = make_plan(f"stop.dollars={cap}", "stop.rounds=30")

    def script(function, request):
        return [answered(function, request, duration_ms=request.timeout_s * 1000 * share)]

    state = World(plan, script).finish()
    assert most(plan, state) <= Decimal(cap)


def test_capped_run_reserves_cost_of_last_evaluations():
    assert budget.kept_for_end(make_plan("stop.rounds=2"), World(make_plan("stop.rounds=2")).finish()) == 0
    plan = make_plan("stop.dollars=0.01")
    ended = World(plan).finish()
    assert ended.phase == "absolute" and budget.kept_for_end(plan, ended) == 0
    kept = {
        phase: budget.kept_for_end(plan, msgspec.structs.replace(ended, phase=phase, slots={}))
        for phase in ("round", "final", "absolute")
    }
    assert kept["round"] > kept["final"] > kept["absolute"] == 0


def test_resuming_exhausted_run_repeatedly_costs_nothing():
    world = World(make_plan("stop.dollars=0.00003"))
    state = world.finish()
    assert state.status == "stopped"
    commits = world.ledger.commits
    for _ in range(50):
        assert world.finish().status == "stopped"
    assert world.ledger.commits == commits


def test_a_cap_below_one_attempt_stops_resumably():
    world = World(make_plan("stop.dollars=0.00001"))
    state = world.finish()
    assert (state.status, state.round) == ("stopped", 0)
    assert "stop.dollars (1e-05)" in state.reason and "\n" not in state.reason
    world.plan = make_plan("stop.dollars=1.0", "stop.rounds=2")
    assert world.finish().round == 2


@pytest.mark.parametrize("cap", [0.00015, 0.00025])
def test_a_cap_that_pays_no_round_names_one(cap):
    world = World(make_plan(f"stop.dollars={cap}"))
    state = world.finish()
    assert (state.status, state.round, state.final) == ("stopped", 0, ())
    named_cap = float(re.search(rf"than stop.dollars \({cap:g}\); a resume needs stop.dollars=(\S+)", state.reason)[1])
    assert cap < named_cap < 2.5 * cap
    world.plan = make_plan(f"stop.dollars={named_cap}")
    state = world.finish()
    assert (state.status, state.reason) == ("finished", "dollars") and state.round >= 1
    assert len(state.final) > 0


def test_everything_is_affordable_without_cap():
    plan = make_plan("functions.actor.timeout_s=7")
    state = World(plan).driver().state
    (task,) = in_flight(plan, state)
    assert budget.allowed_s(plan, state, task) == 7.0
    assert budget.affordable(plan, state, [task] * 1000)


def test_capped_attempt_may_take_its_known_need():
    # Unseen a tenth of the cap: 0.002 x 0.1 / (1769/1024 GB x $1.33334e-5 per GB-s on arm) = 8.683 s
    plan = make_plan("stop.dollars=0.002")
    (task,) = in_flight(plan, State())
    first = budget.allowed_s(plan, State(), task)
    assert first == pytest.approx(0.0002 / (1769 / 1024 * 1.33334e-5), abs=0.0006)

    def after(failures):
        slots = {"describe": Slot(item=work_item("actor"), timeout_s=1.0, failures=failures)}
        return budget.allowed_s(plan, State(slots=slots), task)

    # Each failure doubles it, up to the user's limit.
    assert [after(1), after(2), after(9)] == pytest.approx([2 * first, 4 * first, 60.0], abs=0.001)
    # Seen ten times the longest, and at least a second.
    assert [budget.allowed_s(plan, State(slowest={"describe": ms}), task) for ms in (200.0, 3.0)] == [2.0, 1.0]


def test_many_actors_share_limit_of_unseen_kind():
    world = World(make_plan("stop.dollars=0.1", "actors.rollouts=50", "stop.rounds=3"))
    state = world.finish()
    assert (state.status, state.round) == ("finished", 3)
    timeouts = [request.timeout_s for request in world.invoker.asked if isinstance(request, SampleTask)]
    # A tenth of $0.1 over fifty: 0.1 x 0.1 / 50 / 2.3034e-5 = 8.68 s while unseen, then a second.
    assert timeouts == pytest.approx([0.0002 / (1769 / 1024 * 1.33334e-5)] * 50 + [1.0] * 100, abs=0.0006)


def test_lost_attempt_is_billed_at_its_largest_use():
    plan = make_plan(init_limit_ms=500)
    item = work_item("learner", plan.config.functions.learner.memory_mb, 7)
    charge = budget.add_lost(plan, Meter(), [(item, 2.0)])
    assert charge.learner.billed_ms == 2500
    assert (charge.learner.attempts_lost, charge.puts, charge.gets) == (1, MOST_PUTS, 7)


@pytest.mark.parametrize(
    "duration_ms, init_ms, init_limit_ms, billed",
    [(100.2, 0.0, 0, 101), (100.2, 50.3, 0, 151), (2100.0, 0.0, 0, 2000), (2100.0, 700.0, 500, 2500)],
)
def test_attempt_is_billed_up_to_timeout(duration_ms, init_ms, init_limit_ms, billed):
    plan = make_plan(init_limit_ms=init_limit_ms)
    (task,) = in_flight(plan, State())
    ended = report("actor", task.request(), outcome="timeout", duration_ms=duration_ms, init_ms=init_ms)
    assert budget.invocation_of(plan, ended, 2.0, 1769, Usage()).billed_ms == billed


def test_a_meter_keeps_its_digits_through_the_ledger():
    meter = budget.add_lost(make_plan(), Meter(), [(work_item("actor", gets=3), 1.2345)])
    assert msgspec.json.decode(msgspec.json.encode(meter), type=Meter) == meter


def test_coordinator_function_is_reserved_too():
    cap = Decimal("0.002")
    plan = make_plan(f"stop.dollars={cap}")
    assert budget.affordable(plan, State(), [])
    # Three turns of 5 s and a start of 10 s at 10 GB: 450 GB-s at $0.0000133334 are $0.006.
    assert not budget.affordable(promising(plan, coordinator_mb=10_240, init_limit_ms=10_000), State(), [])


def test_platform_measurement_is_billed_beyond_timeout():
    plan = make_plan()
    report = Report(id="r", attempt=0, function="actor", outcome="answered", duration_ms=5000.0)
    here = budget.invocation_of(plan, report, 1.0, 1024, Usage())
    measuring = promising(plan, startup_counts_to_timeout=False, cpu_scaling=False)
    there = budget.invocation_of(measuring, report, 1.0, 1024, Usage())
    # Of 5 s the time-out of 1 s, stretched by 1769 / 1024, against the 5 s that were measured.
    assert (here.billed_ms, there.billed_ms) == (1728, 5000)
