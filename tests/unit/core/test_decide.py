import msgspec
import pytest
from simulated import World, answered, failed, make_plan, report
from task_fields import make_task

from marless.coordinator.core.apply import apply
from marless.coordinator.core.decide import Advance, Dispatch, Wait, decide
from marless.coordinator.core.events import AttemptEnded, Finishing, Reported, Resumed, Stopped
from marless.coordinator.core.state import State
from marless.coordinator.drive import driver as loop
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.learner import LearnTask

ENCODE = msgspec.json.Encoder(order="deterministic").encode


# 10 environment steps a rollout.
STEPS = ("actors.num_envs=2", "actors.rollout_length=5")


def journey(*overrides, script=None, limit=400):
    plan = make_plan(*overrides)
    world = World(plan, script) if script else World(plan)
    driver, met = world.driver(), []

    def recorded_decide(plan, state):
        met.append((state, decide(plan, state)))
        return met[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "decide", recorded_decide)
        for _ in range(limit):
            # The driver does not ask again while it waits.
            if isinstance(waiting := decide(plan, driver.state), Wait):
                met.append((driver.state, waiting))
            if not driver.step():
                return plan, [*met, (driver.state, decide(plan, driver.state))], world
    raise AssertionError("the run did not end")


def state_in(phase, kind, *overrides):
    plan, met, _ = journey("stop.rounds=2", *overrides)
    return plan, next(state for state, command in met if state.phase == phase and isinstance(command, kind))


def works(command):
    return [task.work for task in command.tasks]


def test_a_run_asks_for_its_phases_in_order():
    _, met, _ = journey("stop.rounds=3", "placement.rule=split", "sharing.rule=all")
    asked = [(state.round, works(command)) for state, command in met if isinstance(command, Dispatch)]
    first = [["learn/postprocess"], ["learn/critic/g00", "learn/policy/g00"]]
    assert asked == [
        (0, ["describe"]),
        (0, ["initialise"]),
        (0, ["sample/00000-00000"]),
        *((0, wave) for wave in first),
        (1, ["sample/00000-00000"]),
        *((1, wave) for wave in first),
        (2, ["sample/00000-00000", "evaluate/000"]),
        *((2, wave) for wave in first),
        (3, ["final/000"]),
        (3, ["absolute/000"]),
    ]
    assert isinstance(met[-1][1], Stopped) and met[-1][1] == Stopped("finished", "rounds")


@pytest.mark.parametrize("phase", ["describe", "initialise", "round", "final", "absolute"])
@pytest.mark.parametrize("kind", [Dispatch, Wait, Advance])
def test_every_phase_asks_then_waits_then_advances(phase, kind):
    plan, state = state_in(phase, kind)
    command = decide(plan, state)
    assert isinstance(command, kind)
    if kind is Dispatch:
        assert not any(slot.waiting for slot in state.slots.values())
    else:
        waiting = [slot.waiting for slot in state.slots.values() if slot.done is None]
        assert (waiting == []) is (kind is Advance) and all(waiting)


@pytest.mark.parametrize("settings", [("stop.dollars=1", "actors.rollouts=2"), ("placement.rule=fused",)])
def test_a_state_from_the_ledger_is_decided_alike(settings):
    plan, met, _ = journey("stop.rounds=3", *settings)
    for state, command in met:
        before = ENCODE(state)
        stored = msgspec.json.decode(before, type=State)
        assert stored == state
        assert decide(plan, state) == decide(plan, stored) == command
        assert ENCODE(state) == before


def test_a_round_asks_for_its_rollouts_in_packs():
    _, met, world = journey("stop.rounds=1", "actors.rollouts=5", "placement.pack=2")
    sample = next(command for state, command in met if state.phase == "round" and isinstance(command, Dispatch))
    assert works(sample) == ["sample/00000-00001", "sample/00002-00003", "sample/00004-00004"]
    requests = [request for request in world.invoker.asked if isinstance(request, SampleTask)]
    assert [request.sampling.rollouts for request in requests] == [(0, 1), (2, 3), (4,)]
    assert {request.address.id for request in requests} == {f"r/000000/{work}" for work in works(sample)}
    assert {request.sampling.rollout_length for request in requests} == {5}


def test_learners_get_all_trajectories_and_needed_state():
    _, _, world = journey("stop.rounds=2", "actors.rollouts=2", "placement.rule=split")
    second = [
        request for request in world.invoker.asked if isinstance(request, LearnTask) and request.address.round == 1
    ]
    for request in second:
        assert [ref.key for ref in request.trajectories] == [
            f"rounds/000001/sample/0000{rollout}-0000{rollout}.trajectory.safetensors" for rollout in (0, 1)
        ]
    policy = next(request for request in second if request.stages == ("policy",) and request.groups == (1,))
    assert [ref.key for ref in policy.state] == [
        "rounds/000000/learn/policy/g01.learner.safetensors",
        "rounds/000000/learn/policy/g01.policies.safetensors",
    ]
    assert [ref.key for ref in policy.tensors] == ["rounds/000001/learn/postprocess.tensors.safetensors"]


def test_evaluation_comes_every_k_rounds_after_start():
    _, _, world = journey("stop.rounds=7", "evaluation.every=3")
    streams = [
        (request.address.round, request.stream) for request in world.invoker.asked if isinstance(request, EvaluateTask)
    ]
    assert streams == [(3, "evaluate"), (6, "evaluate"), (7, "final"), (7, "absolute")]


@pytest.mark.parametrize("rollouts", [1, 2, 5])
@pytest.mark.parametrize("placement", ["split", "whole"])
def test_evaluations_come_at_same_steps_for_any_round(rollouts, placement):
    steps = (*STEPS, f"actors.rollouts={rollouts}", f"placement.rule={placement}", "placement.chain=8")
    _, _, world = journey("stop.env_steps=400", "evaluation.every_steps=100", *steps)
    assert {line.env_steps for line in world.journal} == {*range(10 * rollouts, 401, 10 * rollouts)}
    assert [line.evaluation.env_steps for line in world.journal if line.evaluation] == [100, 200, 300]


def test_round_that_passes_multiple_is_evaluated_once():
    # Rounds of 30 steps pass 100 with the fourth and 200 with the seventh.
    _, _, world = journey("stop.env_steps=270", "evaluation.every_steps=100", *STEPS, "actors.rollouts=3")
    assert [line.evaluation.env_steps for line in world.journal if line.evaluation] == [120, 210]


def test_absolute_metric_takes_tenfold_episodes_in_parts():
    _, met, world = journey("stop.rounds=1", "evaluation.episodes=4", "evaluation.episodes_per_invocation=16")
    parts = [r for r in world.invoker.asked if isinstance(r, EvaluateTask) and r.stream == "absolute"]
    assert [(part.part, part.episodes) for part in parts] == [(0, 16), (1, 16), (2, 8)]
    assert len(met[-1][0].absolute) == 40


@pytest.mark.parametrize(
    "limit, rounds, reason",
    [
        ("stop.rounds=0", 0, "rounds"),
        ("stop.rounds=3", 3, "rounds"),
        ("stop.env_steps=25", 3, "env_steps"),  # 2 environments x 5 steps a round: 10, 20, 30
        ("stop.seconds=3", None, "seconds"),
        ("stop.dollars=0.002", None, "dollars"),
    ],
)
def test_each_limit_ends_run_after_round(limit, rounds, reason):
    _, met, _ = journey(limit, limit=20_000)
    state = met[-1][0]
    assert (state.status, state.reason) == ("finished", reason)
    assert rounds is None or state.round == rounds
    assert state.round > 0 or rounds == 0
    assert len(state.final) == 2 and len(state.absolute) == 20


def test_first_reached_limit_ends_run():
    _, met, _ = journey("stop.rounds=5", "stop.env_steps=20")
    assert (met[-1][0].round, met[-1][0].reason) == (2, "env_steps")


def test_limit_of_seconds_counts_training_time():
    _, met, _ = journey("stop.seconds=5", limit=2000)
    finish = next(state for state, command in met if isinstance(command, Finishing))
    before = [state.seconds for state, _ in met if state.round == finish.round - 1]
    assert finish.seconds >= 5 > before[0]


def test_target_return_ends_run_with_its_policies():
    def script(function, request):
        return [answered(function, request, returns=-30.0 if request.address.round >= 4 else -60.0)]

    _, met, world = journey("stop.return=-36", script=script)
    state = met[-1][0]
    assert (state.status, state.reason, state.round) == ("finished", "return", 4)
    final = next(r for r in world.invoker.asked if isinstance(r, EvaluateTask) and r.stream == "final")
    assert [ref.key for ref in final.policies] == ["rounds/000003/learn/all.policies.safetensors"]
    # Round 4 learned during that evaluation, and its objects are deleted.
    assert any(isinstance(request, LearnTask) and request.address.round == 4 for request in world.invoker.asked)
    assert not [key for key in world.storage if key.startswith("rounds/000004/")]


def test_failed_attempt_is_retried_up_to_limit():
    def script(function, request):
        bad = isinstance(request, SampleTask) and request.address.round == 1
        return [report(function, request, outcome="crash") if bad else answered(function, request)]

    _, met, world = journey("stop.rounds=3", "attempts=4", script=script)
    tries = [r.attempt for r in world.invoker.asked if isinstance(r, SampleTask) and r.address.round == 1]
    assert tries == [0, 1, 2, 3]
    assert met[-1][1] == Stopped(
        "failed", "sample/00000-00000 of round 2 failed after 4 attempts, last: the actor died: exit status 1"
    )


@pytest.mark.parametrize("outcome", ["crash", "timeout", "throttled", "failed"])
def test_failed_attempt_leaves_no_trace_in_result(outcome):
    def script(function, request):
        if request.attempt == 0 and isinstance(request, LearnTask):
            bad = failed(function, request) if outcome == "failed" else report(function, request, outcome=outcome)
            return [bad]
        return [answered(function, request)]

    _, met, _ = journey("stop.rounds=3", script=script)
    _, smooth, _ = journey("stop.rounds=3")
    state, undisturbed = met[-1][0], smooth[-1][0]
    assert (state.status, state.round, state.env_steps) == ("finished", 3, 30)
    assert [state.durable_refs, state.final] == [undisturbed.durable_refs, undisturbed.final]


def test_hopeless_failure_stops_run_immediately():
    def script(function, request):
        if isinstance(request, LearnTask):
            return [failed(function, request, again=False, message="policy/g00/w0 is not finite")]
        return [answered(function, request)]

    plan, met, world = journey("stop.rounds=3", script=script)
    assert met[-1][1] == Stopped("failed", "learn/all of round 1: policy/g00/w0 is not finite")
    assert [r.attempt for r in world.invoker.asked if isinstance(r, LearnTask)] == [0]
    assert met[-1][0].diverged
    resumed = apply(plan, met[-1][0], Resumed())
    assert works(decide(plan, resumed)) == ["learn/all"] and not resumed.diverged


@pytest.mark.parametrize("kind", [SampleTask, LearnTask])
@pytest.mark.parametrize("again", [False, True])
def test_number_not_finite_means_divergence_except_from_environment(kind, again):
    def script(function, request):
        bad = isinstance(request, kind)
        return [failed(function, request, again=again) if bad else answered(function, request)]

    _, met, _ = journey("stop.rounds=3", script=script)
    assert met[-1][0].status == "failed" and met[-1][0].diverged == (not again)


def test_one_failure_is_retried_while_others_run():
    def script(function, request):
        fails = isinstance(request, SampleTask) and request.sampling.rollouts == (1,) and request.attempt == 0
        return [failed(function, request) if fails else answered(function, request)]

    world = World(make_plan("actors.rollouts=4", "stop.rounds=1"), script)
    driver = world.driver()
    while len(world.invoker.asked) < 7:
        driver.step()
    # Describe, initialise, four rollouts, and the second attempt of one of them.
    assert (world.invoker.asked[-1].sampling.rollouts, world.invoker.asked[-1].attempt) == ((1,), 1)
    assert sum(slot.waiting for slot in driver.state.slots.values()) == 3
    assert world.finish(driver).status == "finished"
    asked = [(r.sampling.rollouts, r.attempt) for r in world.invoker.asked if isinstance(r, SampleTask)]
    assert sorted(asked) == [((0,), 0), ((1,), 0), ((1,), 1), ((2,), 0), ((3,), 0)]


@pytest.mark.parametrize("status", ["finished", "stopped", "failed"])
def test_a_run_that_ended_stays_ended(status):
    plan, state = state_in("round", Wait)
    ended = apply(plan, state, Stopped(status, "why"))
    assert decide(plan, ended) == Stopped(status, "why")


def test_a_late_report_wakes_nothing():
    plan, state = state_in("round", Wait)
    (work,) = state.slots
    request = make_task(SampleTask,
        id="r/000000/" + work, run="r", round=0, output="x", attempt=7, timeout_s=1.0, seed=1,
        environment=plan.config.task, team=state.team, policies=(), rollouts=(0,), num_envs=2, rollout_length=5,
    )  # fmt: skip
    late = apply(plan, state, Reported((AttemptEnded(work, report("actor", request, outcome="crash"), None),)))
    assert decide(plan, late) == Wait()


def test_finishing_asks_for_the_final_evaluation():
    plan, state = state_in("round", Dispatch)
    assert works(decide(plan, apply(plan, state, Finishing("rounds")))) == ["final/000"]


def test_the_order_of_answers_does_not_matter():
    plan = make_plan("actors.rollouts=4", "stop.rounds=2")
    forward, backward = World(plan), World(plan)
    backward.invoker.wait = lambda timeout_s: [backward.invoker.queue.pop()] if backward.invoker.queue else []
    first, second = forward.finish(), backward.finish()
    assert [line.return_mean for line in forward.journal] == [line.return_mean for line in backward.journal]
    assert (first.objects, first.parts, first.best) == (second.objects, second.parts, second.best)
