"""Simulations of made-up records, with round times and bills worked out by hand."""

import dataclasses

import msgspec
import pytest
from simulated import SPEC, World, make_plan, promising

from marless.coordinator.core.state import RoundLine
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Ports
from marless.coordinator.errors import UserError
from marless.estimation.recording import Recording
from marless.estimation.service_times import by_dispatch, fit, longest_path_s, makespan, slots_of
from marless.estimation.simulation import SimulatedSetting, simulate
from marless.estimation.virtual_functions import Faults
from marless.functions.messages.usage import Usage


def attempt(kind, asked, took_ms, slots=2, init_ms=0.0, size=1.0, beside_s=0.0, function="actor"):
    ended = asked + (took_ms + init_ms) / 1000 + beside_s
    return AttemptRecord(
        round=0, work=kind, function=function, kind=kind, size=size, slots=slots, asked_at=asked, ended_at=ended,
        init_ms=init_ms, duration_ms=took_ms, usage=Usage(puts=1, bytes_written=1000),
    )  # fmt: skip


def test_makespans_are_those_of_tasks_begun_in_order():
    assert makespan([3, 1, 1, 1], 2) == 3
    assert makespan([1, 1, 1, 3], 2) == 4
    assert makespan([2, 2], 5) == 2


def test_times_are_fitted_to_record_and_overhead():
    # Ten waves of one task of 5 ms + 2 ms for each size, 3 ms of overhead, and 7 ms until the next.
    records, now = [], 100.0
    for number in range(10):
        records.append(attempt("sample", now, 5 + 2 * number, size=float(number), beside_s=0.003))
        now = records[-1].ended_at + 0.007
    times = fit(records, 2)
    task = times.of("sample")
    assert (task.overhead_ms, task.slope_ms) == pytest.approx((5, 2))
    # The first of them warmed up.
    assert task.ratios == pytest.approx([1] * 9) and task.first_ratios == pytest.approx([1])
    assert (times.hand_over_s, times.between_s) == pytest.approx((0.003, 0.007))


def test_slots_are_those_used_when_tasks_waited():
    # Six tasks of 10 ms, asked for at once where 256 are allowed, run two by two.
    asked = [attempt("sample", 0.0, 10, slots=256, beside_s=0.01 * (number // 2)) for number in range(6)]
    assert slots_of(asked) == 2
    # All tasks run together without a queue, so more may run than were asked for.
    assert slots_of([attempt("sample", 0.0, 10, slots=256) for _ in range(6)]) == 256
    assert slots_of([attempt("sample", 0.0, 10, slots=2) for _ in range(6)]) == 2


def test_late_environment_starts_repeat_in_simulation():
    records = []
    for number in range(10):
        # A tenth of each wave starts, of the first all.
        inits = [100.0 if number == 0 or index == 0 else 0.0 for index in range(10)]
        records += [attempt("sample", float(number), 10, slots=10, init_ms=init_ms) for init_ms in inits]
    times = fit(records, 10)
    assert times.restarts == {"actor": 0.1}
    assert times.init_ms == {"actor": (100.0,) * 19}


def test_attempts_asked_before_first_end_are_wave():
    first = [attempt("sample", 0.0, 10), attempt("sample", 0.001, 30), attempt("sample", 0.002, 5)]
    second = [attempt("learn", 0.031, 5)]
    assert by_dispatch([*second, *reversed(first)]) == [first, second]


def beside_learners(number):
    """A round of 0.1 s: samples, an evaluation of 80 ms during odd rounds, and a learner."""
    asked = number / 10
    ends = [attempt("sample", asked, 20, beside_s=0.003), attempt("learn", asked + 0.03, 40, beside_s=0.003)]
    if number % 2:
        ends.append(msgspec.structs.replace(attempt("evaluate", asked, 80), work="evaluate/000"))
    return [msgspec.structs.replace(end, round=number) for end in ends]


def test_learner_during_evaluation_is_not_of_its_wave():
    records = [end for number in range(12) for end in beside_learners(number)]
    times = fit(records, 2)
    assert times.hand_over_s == pytest.approx(0.003)
    # Between samples and learners: 30 - 23 ms. Each round has an evaluation, so no time is left over between them.
    assert times.between_s == pytest.approx(0.007)
    assert longest_path_s(beside_learners(0)) == pytest.approx(0.02 + 0.04)
    assert longest_path_s(beside_learners(1)) == pytest.approx(0.08)


def test_lagged_round_takes_longest_of_learners_and_samples():
    learners = [
        msgspec.structs.replace(attempt("learn", asked, ms), work=f"learn/{asked}")
        for asked, ms in ((0.0, 20), (0.03, 40))
    ]
    long, short = attempt("sample", 0.0, 70), attempt("sample", 0.0, 25)
    assert longest_path_s([short, *learners]) == pytest.approx(0.06)
    assert longest_path_s([long, *learners]) == pytest.approx(0.07)
    assert longest_path_s([short]) == pytest.approx(0.025)
    after = [msgspec.structs.replace(each, asked_at=each.asked_at + 0.1) for each in learners]
    after = [msgspec.structs.replace(each, ended_at=each.ended_at + 0.1) for each in after]
    assert longest_path_s([short, *after]) == pytest.approx(0.025 + 0.06)


def recording(slots=4, sample_ms=40.0, learn_ms=100.0, **overrides):
    """The record of a run with 40 ms per rollout and 100 ms per learner, and no other time."""
    settings = ("actors.rollouts=4", "evaluation.every=1000", *(f"{key}={value}" for key, value in overrides.items()))
    plan = promising(make_plan(*settings), concurrency=slots)
    world = World(plan)
    driver = Driver(plan, Ports(world.storage, world.ledger, world.invoker, world.journal))
    driver.begin()
    while driver.state.round < 3:
        driver.step()
    records, now = [], 0.0
    for kind, took in (("describe", 1.0), ("initialise", 1.0)):
        records.append(attempt(kind, now, took, slots))
        now = records[-1].ended_at
    for _ in range(10):
        records += [attempt("sample", now, sample_ms, slots) for _ in range(4)]
        now = records[-1].ended_at
        records.append(attempt("learn", now, learn_ms, slots, size=80.0, function="learner"))
        now = records[-1].ended_at
    return Recording(plan, driver.state, list(world.journal), records)


@pytest.mark.parametrize(
    ("rollouts", "slots", "waves_of_sampling"), [(4, 4, 1), (8, 4, 2), (9, 4, 3), (100, 100, 1), (100, 7, 15)]
)
def test_round_takes_waves_plus_coordinator_time(rollouts, slots, waves_of_sampling):
    found = simulate(recording(), SimulatedSetting(rollouts, 6, slots))
    # 80 rows (four rollouts of two agents in two environments for five steps) take the learner 100 ms. 2 ms are its
    # overhead, and the rest is in proportion.
    learning = 0.002 + 0.098 * rollouts / 4
    expected = 0.04 * waves_of_sampling + learning
    computed = found.coordinator_s * 6
    assert all(expected - 1e-9 <= seconds <= expected + computed + 1e-9 for seconds in found.round_s)
    assert found.critical_path_s == pytest.approx(0.04 + learning, rel=0.1)
    assert found.busy_s["sample"] == pytest.approx(0.04 * rollouts)


def test_sampling_only_rounds_are_outside_round_time():
    found = simulate(recording(**{"pipeline.lag": 5}), SimulatedSetting(4, 6, 5))
    # Four rollouts of 40 ms during a learner of 100 ms.
    assert len(found.round_s) == 5 and min(found.round_s) >= 0.1 - 1e-9
    assert found.critical_path_s == pytest.approx(0.1) == found.busy_s["learn"]
    learner = found.state.meter.learner
    assert learner.invocations == 1 + 6


def test_simulated_run_has_bill_of_its_tasks():
    meter = simulate(recording(), SimulatedSetting(8, 6, 4)).state.meter
    assert meter.actor.invocations == 1 + 6 * 8
    # 40 ms on a function's share of a vCPU, rounded up. Describing takes 1 ms.
    memory = make_plan().config.functions.actor.memory_mb
    scaled = -(-40 * 1769 // min(1769, memory))
    assert meter.actor.billed_ms == pytest.approx(6 * 8 * scaled, abs=10)
    assert meter.learner.invocations == 1 + 6


@pytest.mark.parametrize(("start", "learners"), [("together", 1), ("apart", 2)])
def test_simulation_keeps_first_groups_despite_sharing_rule(start, learners):
    found = simulate(recording(**{"sharing.rule": "roles", "sharing.start": start}), SimulatedSetting(4, 6, 4))
    assert len(set(found.state.groups)) == learners


def test_the_same_seed_draws_the_same_durations():
    spread = [recording(sample_ms=took).records for took in (10.0, 40.0)]
    mixed = dataclasses.replace(recording(), records=[*spread[0], *_later(spread[1])])
    drawn = [
        [(record.work, record.duration_ms) for record in simulate(mixed, SimulatedSetting(8, 5, 4, seed=seed)).records]
        for seed in (1, 1, 2)
    ]
    assert sorted(drawn[0]) == sorted(drawn[1]) != sorted(drawn[2])


def _later(records):
    return [
        msgspec.structs.replace(each, asked_at=each.asked_at + 100, ended_at=each.ended_at + 100) for each in records
    ]


def test_slow_attempts_make_a_round_longer_and_dearer():
    usual, slow = (
        simulate(recording(), SimulatedSetting(4, 5, 4, faults=faults)) for faults in (Faults(), Faults(slow=1.0))
    )
    assert slow.round_s[0] == pytest.approx(10 * 0.14, rel=0.2)
    assert slow.state.meter.learner.billed_ms == pytest.approx(10 * usual.state.meter.learner.billed_ms, rel=0.01)
    assert slow.dollars > usual.dollars


def test_lost_attempts_time_out_and_are_retried():
    record = recording(**{"functions.actor.timeout_s": 2, "attempts": 10})
    found = simulate(record, SimulatedSetting(4, 9, 4, faults=Faults(lost=0.1)))
    lost = [each for each in found.records if each.outcome == "timeout"]
    assert lost and {each.duration_ms for each in lost if each.function == "actor"} == {2000.0}
    assert found.state.meter.actor.invocations == sum(each.function == "actor" for each in found.records)


def test_deployed_run_awaits_storage_on_vcpu_share():
    record = recording(**{"functions.actor.memory_mb": 885})
    found = simulate(record, SimulatedSetting(4, 5, 4, deployed=True))
    task = next(each for each in found.records if each.work.startswith("sample/"))
    # Twice the time on half a vCPU (885 of 1,769 MB), a GET of 20 ms (policies), and a PUT of 30 ms (1 KB).
    assert task.duration_ms == pytest.approx(40 * 1769 / 885 + 20 + 30, abs=0.1)
    assert task.usage == Usage(puts=1, gets=1, bytes_written=1000)
    started = [each.init_ms for each in found.records if each.function == "actor" and each.init_ms]
    # Four rollouts at once need four environments. The first of them described the task. The time before INIT passes
    # but is not billed: 300 ms, INIT, 25 ms of calling, 2 ms of work and a PUT.
    assert started == pytest.approx([1000 * 1769 / 885] * 4)
    took = found.records[0].ended_at - found.records[0].asked_at
    # The coordinator's computing passes, too: a tenth of a millisecond, more on a loaded machine.
    assert 0 <= 1000 * took - (300 + started[0] + 25 + 2 + 30) + 1e-6 < 1


def test_a_run_without_answers_cannot_be_simulated():
    empty = dataclasses.replace(recording(), records=[attempt("sample", 0.0, 1)])
    crashed = [msgspec.structs.replace(each, outcome="crash") for each in empty.records]
    with pytest.raises(UserError, match="no attempt is recorded"):
        simulate(dataclasses.replace(empty, records=crashed), SimulatedSetting(1, 3, 1))


def test_a_kind_that_was_not_recorded_is_named():
    with pytest.raises(UserError, match="the kind learn"):
        simulate(dataclasses.replace(recording(), records=recording().records[:6]), SimulatedSetting(1, 3, 1))


def test_replies_are_those_of_the_recorded_rounds():
    record = recording()
    found = simulate(record, SimulatedSetting(4, 5, 4))
    recorded: list[RoundLine] = list(record.lines)
    assert [line.return_mean for line in found.lines[:3]] == [line.return_mean for line in recorded]
    assert found.lines[0].agent_returns == pytest.approx(recorded[0].agent_returns)
    assert found.lines[-1].env_steps == 5 * 4 * 2 * SPEC.horizon


@pytest.mark.parametrize("reads", [{"gets": 6}, {"gets": 1, "hits": 5}, {"hits": 6}])
def test_learner_reads_all_trajectories_despite_process_cache(reads):
    record = recording()
    reading = [
        msgspec.structs.replace(each, usage=Usage(puts=2, **reads)) if each.kind == "learn" else each
        for each in record.records
    ]
    found = simulate(dataclasses.replace(record, records=reading), SimulatedSetting(50, 4, 50, deployed=True))
    task = next(each for each in found.records if each.kind == "learn")
    # One object for each of 50 rollouts, the policies and the rest of the learner's state.
    assert (task.usage.puts, task.usage.gets) == (2, 52)
