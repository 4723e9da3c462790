"""With `pipeline.lag` a round learns from the round so many before it, and from no other, while it is sampled."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from simulated import World, answered, make_plan, on_lambda

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.coordinator.core import budget
from marless.coordinator.core.decide import decide
from marless.coordinator.core.planning import next_placement
from marless.coordinator.core.round_graph import coming_learners, in_flight
from marless.coordinator.core.rounds import learner_schedule
from marless.coordinator.placement.candidates import options
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.learner import LearnTask

REPLAY = ("algorithm.name=iql", "algorithm.batch_size=4", "algorithm.updates_per_round=2")


def asked(world, kind):
    return [request for request in world.invoker.asked if isinstance(request, kind)]


def sampled_in(refs):
    return {int(ref.key.split("/")[1]) for ref in refs}


@given(
    lag=st.integers(0, 8),
    rule=st.sampled_from(["split", "packed", "fused"]),
    rollouts=st.integers(1, 3),
    checkpoint=st.integers(1, 6),
    kills=st.sets(st.integers(0, 80), max_size=3),
    replay=st.sampled_from([None, 20, 60]),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_every_row_is_learned_after_the_lag(lag, rule, rollouts, checkpoint, kills, replay):
    settings = (f"pipeline.lag={lag}", f"placement.rule={rule}", f"actors.rollouts={rollouts}", "stop.rounds=10")
    replayed = (*REPLAY, f"algorithm.buffer_size={replay}") if replay else ("algorithm.name=ippo",)
    world = World(make_plan(*settings, *replayed, f"checkpoint_every={checkpoint}"))
    driver = world.finish_over_kills(kills, most_steps=2000)
    assert {request.address.round for request in asked(world, LearnTask)} == set(range(lag, 10))
    for request in asked(world, LearnTask):
        newest = request.address.round - lag
        assert (request.age, sampled_in(request.trajectories)) == (lag, {newest})
        assert len(request.trajectories) == len(request.rollouts) == rollouts
        # A round has 10 steps a rollout. The rest of a replay buffer is older, without a gap.
        older = [past.round for past in request.learning.past]
        fitting = max(1, (replay or 0) // (10 * rollouts))
        assert older == list(range(max(0, newest + 1 - fitting), newest))
    waiting = [past.round for past in driver.state.past]
    assert waiting[len(waiting) - lag :] == list(range(10 - lag, 10))


def test_rounds_before_lag_only_sample_and_say_so():
    world = World(make_plan("pipeline.lag=2", "algorithm.name=ippo", "stop.rounds=4"))
    world.finish()
    assert [(line.learners, bool(line.metrics)) for line in world.journal] == [(0, False)] * 2 + [(1, True)] * 2


@pytest.mark.parametrize("rule", ["split", "packed", "fused"])
def test_lagged_learning_starts_early_and_may_end_first(rule):
    settings = ("pipeline.lag=1", f"placement.rule={rule}", "actors.rollouts=3", "stop.rounds=4")
    world, ended = World(make_plan(*settings)), []

    def samples_end_last(timeout_s):
        world.invoker.now += 1.0
        queue = world.invoker.queue
        others = [index for index, each in enumerate(queue) if "/sample/" not in each.id]
        reports = [queue.pop(others[0] if others else 0)] if queue else []
        ended.extend(each.id.removeprefix("r/") for each in reports)
        return reports

    world.invoker.wait = samples_end_last
    state = world.finish()
    of_round = [id.split("/")[1] for id in ended if id.startswith("000003/")]
    learners = sum(map(len, learner_schedule(world.plan, replace(state, round=3))))
    assert of_round == ["learn"] * learners + ["sample"] * 3
    # Both read the policies that the round before has learned.
    sampled_with = {ref for each in asked(world, SampleTask) if each.address.round == 3 for ref in each.policies}
    learned_from = {ref for each in asked(world, LearnTask) if each.address.round == 3 for ref in each.state}
    assert sampled_with <= learned_from and sampled_in(sampled_with) == {2}


@pytest.mark.parametrize("lag", [0, 1])
def test_learners_count_once_towards_cap(lag):
    plan, states = make_plan(f"pipeline.lag={lag}", "placement.rule=split", "stop.dollars=100", "stop.rounds=3"), []
    World(plan).finish(after=states.append)
    state = replace(next(each for each in states if each.round == 2 and each.phase == "round"), slots={})
    begins = [node.name for node in in_flight(plan, state) if node.item.function == "learner"]
    comes = [node.name for node in coming_learners(plan, state)]
    assert sorted(begins + comes) == sorted(work.name for wave in learner_schedule(plan, state) for work in wave)
    assert bool(begins) == bool(lag)


def test_lone_lagged_learner_waits_for_no_gate():
    plan, states = make_plan("pipeline.lag=1", "stop.rounds=3"), []
    World(plan).finish(after=states.append)
    state = replace(next(each for each in states if each.round == 2 and each.phase == "round"), slots={})
    dispatch = decide(plan, state)
    assert {task.work.partition("/")[0] for task in dispatch.tasks} == {"sample", "evaluate", "learn"}
    assert dispatch.awaited == ()


def test_learner_keeps_what_it_learned_despite_later_samples():
    """By the model of the bill. Three rounds fit into the buffer, two of them are older than the newest."""
    world = World(on_lambda(make_plan(*REPLAY, "algorithm.buffer_size=30", "pipeline.lag=2", "stop.rounds=8")))
    hits, newest = {}, {}

    def remember(state):
        for work, slot in state.slots.items():
            if work.startswith("learn"):
                hits[state.round] = slot.item.expected_hits.hits
                newest[state.round] = state.warm_rounds.get("learner", ())

    world.finish(after=remember)
    assert hits == {2: 0, 3: 1, 4: 2, 5: 2, 6: 2, 7: 2}
    # In round 3 the learner has kept round 0, which it learned from in round 2.
    assert newest == {2: (), 3: (0,), 4: (1,), 5: (2,), 6: (3,), 7: (4,)}


def test_teams_do_not_change_in_rounds_without_learners():
    """Returns fall from the first round on, which switches sharing at every full window of three."""
    falling = lambda function, request: [answered(function, request, returns=-1.0 - request.address.round)]  # noqa: E731
    settings = (
        "trend.rule=paper",
        "trend.window=3",
        "trend.gamma=100.0",
        "sharing.rule=dynamic",
        "sharing.start=apart",
    )
    world = World(make_plan(*settings, "algorithm.name=ippo", "pipeline.lag=8", "stop.env_steps=80"), falling)
    assert (world.finish().reason, len(world.journal)) == ("env_steps", 8)
    assert {line.event for line in world.journal} == {""} and world.journal[-1].slope is not None


def test_sequential_sampling_and_learning_function_is_refused():
    with pytest.raises(ConfigError, match=r"pipeline\.lag: placement\.rule=whole .*; use packed"):
        load(None, ["pipeline.lag=1", "placement.rule=whole"])
    plan, states = make_plan("pipeline.lag=1", "placement.rule=auto", "stop.rounds=3"), []
    world = World(plan)
    state = world.finish(after=states.append)
    assert {line.placement for line in world.journal} == {"packed"}
    layout = next_placement.layout(plan, state)
    assert "whole" not in {each.rule for each in options(layout, next_placement.terms(plan, state))}


def test_run_too_short_to_learn_is_refused():
    with pytest.raises(ConfigError) as error:
        load(None, ["pipeline.lag=2", "stop.rounds=2"])
    assert "stop.rounds: with pipeline.lag=2 round 3 is the first that learns; set 3 or more" in str(error.value)
    assert load(None, ["pipeline.lag=2", "stop.rounds=3"]).stop.rounds == 3


@pytest.mark.parametrize("rule", ["split", "packed"])
def test_sampling_and_first_learners_are_one_wave(rule):
    waves = []
    for lag in (0, 1):
        plan, states = make_plan(f"pipeline.lag={lag}", f"placement.rule={rule}", "stop.rounds=2"), []
        World(plan).finish(after=states.append)
        state = next(each for each in states if each.phase == "round")
        waves.append(next_placement.layout(plan, state).waves(state.placement))
    apart, beside = waves
    assert beside == [apart[0] + apart[1], *apart[2:]]


@pytest.mark.parametrize("cap", [0.0007, 0.0008, 0.001])
@pytest.mark.parametrize("inline", ["false", "true"])
def test_cap_holds_while_rounds_await_learning(cap, inline):
    """Checkpoints of every second round store the trajectories of three rounds that messages held."""
    settings = (f"stop.dollars={cap}", f"placement.inline_objects={inline}", "checkpoint_every=2", "stop.rounds=30")
    plan = make_plan("pipeline.lag=3", "actors.rollouts=3", "algorithm.name=ippo", *settings)
    world = World(plan)
    state = world.finish()
    assert budget.dollars(plan, state.meter) <= Decimal(str(cap))
    assert not world.missing(state)
    assert (state.status, state.reason) == ("finished", "dollars") and state.round > 3


@pytest.mark.parametrize("lag", [1, 2])
def test_a_cap_with_a_lag_pays_final_evaluations(lag):
    settings = ("placement.rule=split", "placement.inline_objects=true", "actors.rollouts=1", "algorithm.name=ippo")
    for cap in (0.0003, 0.0004, 0.0005, 0.0006):
        state = World(make_plan(f"pipeline.lag={lag}", *settings, f"stop.dollars={cap}", "stop.rounds=20")).finish()
        assert (state.status, bool(state.final)) == (("finished", True) if state.round else ("stopped", False)), cap
    assert state.round >= lag


@pytest.mark.parametrize(
    ("lag", "correction", "reads"),
    [(0, "vtrace", False), (2, "vtrace", True), (2, "decoupled", False), (2, "none", False)],
)
def test_only_v_trace_advantages_read_policies(lag, correction, reads):
    settings = (f"pipeline.lag={lag}", f"algorithm.correction={correction}", "placement.rule=split", "stop.rounds=4")
    world = World(make_plan(*settings, "algorithm.name=ippo"))
    world.finish_over_kills(set(), most_steps=2000)
    tasks = asked(world, LearnTask)
    by_stage = {stage: [task for task in tasks if task.stages == (stage,)] for stage in ("postprocess", "policy")}
    for stage, expected in (("postprocess", reads), ("policy", True)):
        assert by_stage[stage]
        for task in by_stage[stage]:
            assert any(ref.key.endswith("policies.safetensors") for ref in task.state) == expected, (stage, task.state)
