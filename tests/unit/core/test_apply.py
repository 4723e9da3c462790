import math
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import World, answered, failed, make_plan, promising, report, well

from marless.coordinator.core import apply as applying
from marless.coordinator.core.apply import apply, problem
from marless.coordinator.core.budget import load_meter
from marless.coordinator.core.controller import ControllerState
from marless.coordinator.core.decide import Dispatch, decide
from marless.coordinator.core.events import (
    AttemptEnded,
    Checkpointed,
    Committed,
    Dispatched,
    Reported,
    Resumed,
    decode_answer,
)
from marless.coordinator.core.round_nodes import MOST_PUTS
from marless.coordinator.core.state import Slot, State, WorkItem
from marless.coordinator.drive import driver as loop
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.coordinator.drive.ledger_items import StateEncoder
from marless.coordinator.pricing import bill
from marless.coordinator.pricing.bill import Meter
from marless.functions.encoding import from_json
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Failed
from marless.functions.messages.learner import LearnTask
from marless.functions.messages.message import Record
from marless.functions.messages.usage import Usage

ENCODE = msgspec.json.Encoder(order="deterministic").encode


def waiting_sample(*overrides):
    """A plan, a state that waits for its samples, and their requests."""
    world = World(make_plan("stop.rounds=2", *overrides))
    driver = world.driver()
    while not (driver.state.phase == "round" and driver.state.slots):
        driver.step()
    requests = [request for request in world.invoker.asked if isinstance(request, SampleTask)]
    return world.plan, driver.state, requests


def heard(plan, state, item):
    return apply(plan, state, Reported((AttemptEnded(item.id.split("/", 2)[2], *decode_answer(item)),)))


def evaluations(*means):
    """A script of evaluations that return these means in order. All other attempts succeed."""
    left = list(means)

    def script(function, request):
        returns = left.pop(0) if isinstance(request, EvaluateTask) and left else -99.0
        return [answered(function, request, returns=returns)]

    return script


def test_applying_is_pure_and_repeatable(monkeypatch):
    pure, applied = apply, []

    def checked_apply(plan, state, event):
        before, event_text = ENCODE(state), repr(event)
        first, second = pure(plan, state, event), pure(plan, state, event)
        assert first == second and ENCODE(state) == before and repr(event) == event_text
        applied.append(type(event).__name__)
        return first

    monkeypatch.setattr(loop, "apply", checked_apply)
    for inline_objects in ("false", "true"):
        settings = ("checkpoint_every=2", "placement.rule=split", f"placement.inline_objects={inline_objects}")
        world = World(make_plan("stop.rounds=4", "actors.rollouts=2", *settings))
        driver = world.driver()
        for _ in range(9):
            driver.step()
        world.finish()
    # Abandoned proposals: test_sharing_flow.py. Lost tasks, and turns without effect: test_detached.py.
    elsewhere = {"Abandoned", "Lost", "Elapsed"}
    assert set(applied) == {event.__name__ for event in applying._HANDLERS} - elsewhere


def test_ledger_body_is_compressed_state_with_any_bill():
    def check(state):
        encoder = StateEncoder(state)
        for billed in (state, apply(make_plan(), state, Committed(1000, 10))):
            assert zlib.decompress(encoder.encode(billed)) == msgspec.json.encode(billed)

    World(make_plan("stop.rounds=3", "actors.rollouts=100", "placement.rule=split")).finish(after=check)
    assert zlib.decompress(StateEncoder(State()).encode(State())) == b"{}"


def test_reports_are_same_together_and_one_by_one():
    plan = make_plan("actors.rollouts=6", "placement.rule=auto")
    world = World(plan)
    driver = world.driver()
    while len(driver.state.slots) < 6:
        driver.step()
    state, requests = driver.state, world.invoker.asked[-6:]
    reports = [
        answered("actor", requests[0], duration_ms=7.5, init_ms=3.0),
        failed("actor", requests[1]),
        report("actor", requests[2], outcome="timeout"),
        answered("actor", requests[0]),
        report("actor", requests[3], outcome="throttled"),
        answered("actor", requests[4], duration_ms=80.25),
    ]
    ended = tuple(AttemptEnded(item.id.split("/", 2)[2], *decode_answer(item)) for item in reports)
    one_by_one = state
    for each in ended:
        one_by_one = apply(plan, one_by_one, Reported((each,)))
    assert apply(plan, state, Reported(ended)) == one_by_one


def test_first_answer_fills_slot_and_is_metered():
    plan, state, (request,) = waiting_sample()
    once = heard(plan, state, answered("actor", request, duration_ms=12.3))
    (slot,) = once.slots.values()
    assert slot.done is not None and not slot.waiting
    assert once.meter.actor.invocations == state.meter.actor.invocations + 1
    assert once.meter.actor.billed_ms == state.meter.actor.billed_ms + 13
    assert once.slowest["sample"] == 12.3
    twice = heard(plan, once, answered("actor", request))
    assert twice.slots == once.slots
    assert twice.meter.actor.invocations == once.meter.actor.invocations + 1
    assert heard(plan, once, failed("actor", request)).slots == once.slots


def test_late_answer_of_earlier_attempt_is_only_metered():
    plan, state, (request,) = waiting_sample()
    resumed = apply(plan, state, Resumed())
    command = decide(plan, resumed)
    assert isinstance(command, Dispatch) and command.tasks[0].request.attempt == 1
    asked = apply(plan, resumed, Dispatched(command.tasks))
    late = heard(plan, asked, answered("actor", request))
    assert late.slots == asked.slots
    assert late.meter.actor.invocations == asked.meter.actor.invocations + 1


def test_attempts_that_never_ran_cost_nothing():
    plan, state, (request,) = waiting_sample()
    throttled, withdrawn = (
        heard(plan, state, report("actor", request, outcome=outcome)) for outcome in ("throttled", "withdrawn")
    )
    assert throttled.meter == withdrawn.meter == state.meter and throttled.lost_use == Meter()
    assert throttled.slots["sample/00000-00000"].failures == 1
    slot = withdrawn.slots["sample/00000-00000"]
    assert (slot.failures, slot.waiting) == (0, False)
    command = decide(plan, withdrawn)
    assert isinstance(command, Dispatch) and [task.request.attempt for task in command.tasks] == [1]


def test_a_report_of_another_round_is_only_metered():
    plan, state, (request,) = waiting_sample()
    other = apply(plan, state, Reported((AttemptEnded("", answered("actor", request), None),)))
    assert other.slots == state.slots and other.meter != state.meter


def test_crash_is_billed_with_possible_reads_and_writes():
    plan, state, (request,) = waiting_sample()
    after = heard(plan, state, report("actor", request, outcome="crash", duration_ms=3.0))
    (slot,) = state.slots.values()
    assert after.meter.puts - state.meter.puts == MOST_PUTS
    assert after.meter.gets - state.meter.gets == slot.item.gets
    assert after.meter.actor.billed_ms - state.meter.actor.billed_ms == 3


@pytest.mark.parametrize(
    "outcome, says",
    [
        ("timeout", "the actor ran longer than its time-out of 2.5 s (functions.actor.timeout_s)"),
        ("crash", "the actor died: exit status 1"),
        ("throttled", "the actor was throttled: exit status 1"),
    ],
)
def test_how_an_attempt_ended_badly_is_one_line(outcome, says):
    _, _, (request,) = waiting_sample()
    slot = Slot(item=WorkItem(function="actor", kind="sample", memory_mb=1769), timeout_s=2.5)
    assert problem(slot, report("actor", request, outcome=outcome), None) == says


@pytest.mark.parametrize(
    ("slots", "says"), [(1, "timeout_s, or placement.rule=fused for a learner per group)"), (2, "timeout_s)")]
)
def test_slow_learner_of_several_groups_may_be_split(slots, says):
    """Two groups with separate learners in a cloud with two slots."""

    def script(function, request):
        return (
            [report(function, request, outcome="timeout")]
            if isinstance(request, LearnTask)
            else well(function, request)
        )

    plan = promising(make_plan("placement.rule=balanced"), concurrency=slots, idle_slots_free=False)
    reason = World(plan, script).finish().reason
    assert "the learner ran longer than its time-out of" in reason and reason.endswith(says)


def test_finished_round_is_line_of_sums_and_means():
    def script(function, request):
        rollout = request.sampling.rollouts[0] if isinstance(request, SampleTask) else 0
        return [answered(function, request, returns=-1.0 - 2 * rollout)]

    world = World(make_plan("stop.rounds=2", "actors.rollouts=2", "placement.rule=split"), script)
    state = world.finish()
    first, second = world.journal
    assert (first.round, first.env_steps, second.env_steps) == (1, 20, 40)
    # Two environments of one episode each return -1, two return -3.
    assert (first.episodes, first.return_mean) == (4, -2.0)
    assert first.return_sd == pytest.approx((4 / 3) ** 0.5)
    assert first.agent_returns == (-1.0, -1.0)
    assert (first.rollouts, first.learners, first.groups, first.invocations) == (2, 5, 2, 7)
    assert set(first.metrics) == {f"{stage}/loss/g00" for stage in ("postprocess", "critic", "policy")}
    assert state.line == second and second.seconds > first.seconds and second.dollars > first.dollars


def test_best_policies_are_of_best_evaluation():
    world = World(make_plan("stop.rounds=6"), evaluations(-50.0, -40.0, -60.0))
    state = world.finish()
    assert (state.best.round, state.best.mean) == (4, -40.0)
    assert [ref.key for ref in state.best.policies] == ["rounds/000003/learn/all.policies.safetensors"]
    assert [line.evaluation.mean for line in world.journal if line.evaluation] == [-50.0, -40.0]
    absolute = [r for r in world.invoker.asked if isinstance(r, EvaluateTask) and r.stream == "absolute"]
    assert absolute[0].policies == state.best.policies


@pytest.mark.parametrize(
    ("rounds", "means", "best"), [(6, (-50.0, -50.0, -50.0), (2, -50.0)), (5, (-50.0, -40.0, -30.0), (5, -30.0))]
)
def test_only_a_better_evaluation_replaces_the_best(rounds, means, best):
    state = World(make_plan(f"stop.rounds={rounds}"), evaluations(*means)).finish()
    assert (state.best.round, state.best.mean) == best
    assert (set(state.best.policies) <= set(state.objects)) == (rounds == 5)


def spread_out(*means, spread):
    """A script like `evaluations`. Half of the episodes return `spread` more, and half as much less."""
    left = list(means)

    def script(function, request):
        if not isinstance(request, EvaluateTask):
            return [answered(function, request)]
        mean = left.pop(0) if left else -99.0
        returns = tuple(mean + (spread if episode % 2 else -spread) for episode in range(request.episodes))
        return [answered(function, request, returns=returns)]

    return script


# An evaluation has 4 episodes and the end 8, all 2 away from their mean. The variance of the 8 is 32 / 7, and the
# standard error of the difference sqrt(32 / 7 * (1 / 4 + 1 / 8)) = 1.309.
@pytest.mark.parametrize(("ahead", "best"), [(1.30, 6), (1.32, 4)])
def test_final_policies_are_best_unless_clearly_beaten(ahead, best):
    plan = make_plan("stop.rounds=6", "evaluation.episodes=4", "evaluation.final_episodes=8")
    script = spread_out(-50.0, -40.0 + ahead, -40.0, spread=2.0)
    state = World(plan, script).finish()
    assert (state.best.round, len(state.final)) == (best, 8)


def test_policies_that_reached_target_are_best():
    plan = make_plan("stop.rounds=6", "stop.return=-41", "evaluation.episodes=4", "evaluation.final_episodes=8")
    state = World(plan, spread_out(-50.0, -40.0, -40.5, spread=2.0)).finish()
    # The mean of the evaluation stays. If a run is killed here, it must find that it has reached the target.
    assert (state.reason, state.best.mean) == ("return", -40.0)


def test_resuming_bills_lost_attempts_at_their_reservation_once():
    plan, state, _ = waiting_sample("actors.rollouts=2")
    resumed = apply(plan, state, Resumed())
    assert resumed.meter.actor.attempts_lost == resumed.lost_use.actor.attempts_lost == 2
    assert resumed.meter.actor.billed_ms - state.meter.actor.billed_ms == 2 * 60_000
    assert resumed.meter == state.meter + resumed.lost_use
    assert apply(plan, resumed, Resumed()) == resumed
    stopped = apply(plan, state, applying.events.Stopped("failed", "why"))
    assert stopped.meter.actor.attempts_lost == 2
    assert apply(plan, stopped, Resumed()).meter == stopped.meter


@pytest.mark.parametrize("outcome", ["timeout", "crash", "failed"])
def test_usage_without_answer_is_counted_separately(outcome):
    plan, state, (first, second) = waiting_sample("actors.rollouts=2", "functions.actor.memory_mb=1769")
    end = failed("actor", first) if outcome == "failed" else report("actor", first, outcome=outcome)
    used = heard(plan, heard(plan, state, end), answered("actor", second)).lost_use
    # The report says that it ran for 10 ms, on a function of one vCPU.
    assert (used.actor.invocations, used.actor.billed_ms, used.actor.attempts_lost) == (1, 10, 0)
    assert used.learner.invocations == used.evaluator.invocations == 0


def test_resuming_a_finished_run_lets_it_train_on():
    world = World(make_plan("stop.rounds=2"))
    resumed = apply(world.plan, world.finish(), Resumed())
    assert (resumed.status, resumed.phase, resumed.round) == ("running", "round", 2)
    assert (resumed.final, resumed.absolute, resumed.slots) == ((), (), {})


def test_resume_with_other_placement_restarts_current_round():
    plan, state, _ = waiting_sample("actors.rollouts=2")
    other = make_plan("stop.rounds=2", "actors.rollouts=2", "placement.pack=2")
    assert set(apply(plan, state, Resumed()).slots) == set(state.slots)
    resumed = apply(other, state, Resumed())
    assert (resumed.slots, resumed.phase, resumed.meter.actor.attempts_lost) == ({}, "round", 2)


def test_commits_and_loads_are_metered_by_size():
    assert apply(make_plan(), State(), Committed(2049)).meter.write_units == 3
    assert load_meter(make_plan(), Record(version=1, body=bytes(4097))).read_units == 2


def test_every_ledger_read_is_on_bill(monkeypatch):
    world = World(make_plan("stop.rounds=3", "checkpoint_every=2"))
    sizes, load = [], world.ledger.load

    def measured(item):
        record = load(item)
        sizes.append(len(record.body) if record else 0)
        return record

    monkeypatch.setattr(world.ledger, "load", measured)
    state = world.finish()
    # At the beginning, after round 2, and at the end.
    assert len(sizes) == 3
    assert state.meter.read_units == sum(max(1, math.ceil(size / 4096)) for size in sizes)


def test_checkpoint_holds_needed_objects_and_frees_previous():
    world = World(make_plan("stop.rounds=2"))
    state = msgspec.structs.replace(world.finish(), checkpointed=("old",), garbage=())
    after = apply(world.plan, state, Checkpointed())
    assert set(after.checkpointed) == {ref.key for ref in state.durable_refs}
    assert after.garbage == ("old",)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    means=st.lists(st.floats(-100, 0), min_size=5, max_size=12),
    every=st.integers(1, 3),
    checkpoint=st.integers(1, 4),
    placement=st.sampled_from(["packed", "fused", "split"]),
    kills=st.sets(st.integers(0, 150), max_size=3),
)
def test_only_unneeded_objects_are_deleted(means, every, checkpoint, placement, kills):
    plan = make_plan(
        "stop.rounds=8", f"evaluation.every={every}", f"checkpoint_every={checkpoint}", f"placement.rule={placement}"
    )
    world = World(plan, evaluations(*means))
    world.finish_over_kills(kills, most_steps=1000)
    assert [line.round for line in world.journal] == list(range(1, 9))


def test_failed_attempt_time_is_training_time():
    def script(function, request):
        bad = isinstance(request, SampleTask) and request.attempt == 0
        return [failed(function, request)] if bad else well(function, request)

    # The simulated functions take a second each: describe, initialise, sample, learn, final, absolute.
    assert World(make_plan("stop.rounds=1")).finish().seconds == 6.0
    assert World(make_plan("stop.rounds=1"), script).finish().seconds == 7.0


def test_huge_failure_is_short_line_in_ledger():
    _, _, (request,) = waiting_sample()
    slot = Slot(item=WorkItem(function="actor", kind="sample", memory_mb=1769), timeout_s=2.5)
    answer = Failed(id=request.address.id, attempt=0, kind="environment", message="wrong\n" * 400_000, again=True)
    says = problem(slot, report("actor", request), answer)
    assert says.startswith("wrong wrong") and len(says) <= 400 and "\n" not in says


def test_unreadable_answer_counts_as_crash():
    _, _, (request,) = waiting_sample()
    garbled = msgspec.structs.replace(report("actor", request), body=b'{"type":"done","returns":[null]}')
    read, answer = decode_answer(garbled)
    assert (read.outcome, answer) == ("crash", None)


@pytest.mark.parametrize("phase", ["final", "absolute"])
def test_limit_raised_while_ending_counts(phase):
    met = []
    World(make_plan("stop.rounds=2")).finish(after=met.append)
    ending = next(state for state in met if state.phase == phase)
    assert apply(make_plan("stop.rounds=4"), ending, Resumed()).phase == "round"


class Wavering(StateEncoder):
    """A write of more units makes the state shorter, by the byte that another unit is billed for."""

    def encode(self, state):
        body = super().encode(state)
        return body.ljust(-(-len(body) // 16) * 16 + state.meter.write_units % 2, b"\0")


@pytest.mark.parametrize("encoder", [StateEncoder, Wavering])
def test_every_write_is_billed_by_its_size(monkeypatch, encoder):
    # Units of 16 bytes, so that the write's own addition to the bill shows: its digits change the size.
    monkeypatch.setattr(bill, "write_units", lambda size: math.ceil(size / 16))
    monkeypatch.setattr(loop, "StateEncoder", encoder)
    world, written = World(make_plan("stop.rounds=40", "actors.rollouts=3", "placement.rule=split")), []
    commit = world.ledger.commit

    def weighed(item, body, version):
        written.append(math.ceil(len(body) / 16))
        return commit(item, body, version)

    monkeypatch.setattr(world.ledger, "commit", weighed)
    assert world.finish().meter.write_units == sum(written)


def test_renamed_fields_keep_names_in_ledger_and_files():
    controller = ControllerState(times_switched_on=1, training_cost=2.0, rejected_trials_cost=3.0)
    assert msgspec.to_builtins(controller) == {"times": 1, "trained": 2.0, "looked": 3.0}
    item = WorkItem(function="actor", memory_mb=1, kind="sample", expected_hits=Usage(hits=2))
    assert msgspec.to_builtins(item)["kept"] == {"hits": 2}
    record = AttemptRecord(round=0, work="w", function="actor", kind="sample", size=1.0, asked_at=3.0, ended_at=4.0)
    assert msgspec.to_builtins(record) | {"asked": 3.0, "ended": 4.0} == msgspec.to_builtins(record)


def test_stored_slot_without_counts_awaits_first_attempt():
    stored = b'{"item":{"function":"actor","memory_mb":1769,"kind":"sample"},"timeout_s":2.5}'
    slot = from_json(stored, Slot)
    assert (slot.attempt, slot.failures, slot.waiting, slot.done) == (0, 0, True, None)
