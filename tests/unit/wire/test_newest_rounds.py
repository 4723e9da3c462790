"""The rounds of a run's replay buffer: their number, and the objects that are kept and deleted."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked_rollouts import well
from simulated import World, make_plan

from marless.functions import keys
from marless.functions.messages.learner import LearnTask, Past, WholeTask, newest_rounds

# Rollouts of two environments and five steps.
ROLLOUT = 10


def past(*rollouts):
    return tuple(Past(round=number, rollouts=of, trajectories=()) for number, of in enumerate(rollouts))


@pytest.mark.parametrize(
    ("rollouts", "most", "kept"),
    [
        ((1, 1, 1, 1), 40, [0, 1, 2, 3]),
        ((1, 1, 1, 1), 39, [1, 2, 3]),
        ((1, 1, 1, 1), 30, [1, 2, 3]),
        ((1, 1, 1, 1), 1, [3]),  # the last always
        ((1, 1, 5), 49, [2]),
        ((1, 1, 5), 60, [1, 2]),
        ((5, 1, 1), 60, [1, 2]),  # 20, and 70 are too many: rounds are whole
        ((1, 9, 1), 20, [2]),  # none is left out in between
        ((), 100, []),
    ],
)
def test_the_newest_rounds_are_kept_whole(rollouts, most, kept):
    assert [round_.round for round_ in newest_rounds(past(*rollouts), ROLLOUT, most)] == kept


def plan(rule, replay, *overrides, name="iql"):
    settings = (
        f"algorithm.name={name}",
        f"algorithm.buffer_size={replay}",
        "algorithm.updates_per_round=2",
        "actors.rollouts=2",
    )
    return make_plan(*settings, f"placement.rule={rule}", *overrides)


def rounds_of(request):
    return [round_.round for round_ in request.learning.past]


@pytest.mark.parametrize(("replay", "most"), [(1, 1), (20, 1), (39, 1), (40, 2), (70, 3), (10_000, 8)])
@pytest.mark.parametrize("rule", ["split", "packed"])
def test_learner_gets_earlier_rounds_that_fit(rule, replay, most):
    """A round has 20 steps. `most` rounds fit, the one in flight among them."""
    world = World(plan(rule, replay, "stop.rounds=8"), well)
    state = world.finish()
    learned = [request for request in world.invoker.asked if isinstance(request, LearnTask)]
    assert {request.address.round for request in learned} == set(range(8))
    for request in learned:
        assert rounds_of(request) == list(range(max(0, request.address.round + 1 - most), request.address.round))
        assert len(request.trajectories) == 2 and len(request.rollouts) == 2
        for round_ in request.learning.past:
            prefix = keys.output_prefix(round_.round, "sample/")
            assert round_.rollouts == 2 and [ref.key.startswith(prefix) for ref in round_.trajectories] == [True] * 2
    assert [round_.round for round_ in state.past] == list(range(8 - most, 8))


@pytest.mark.parametrize(("replay", "most"), [(1, 1), (60, 3), (10_000, 10)])
def test_chained_rounds_get_rounds_before_them(replay, most):
    world = World(plan("whole", replay, "stop.rounds=10", "evaluation.every=4", "placement.chain=3"), well)
    state = world.finish()
    asked = {request.address.round: request for request in world.invoker.asked if isinstance(request, WholeTask)}
    # No task spans an evaluation, after rounds 4 and 8.
    assert {round_: request.rounds for round_, request in asked.items()} == {0: 3, 3: 1, 4: 3, 7: 1, 8: 2}
    for first, request in asked.items():
        assert rounds_of(request) == list(range(max(0, first + 1 - most), first))
        assert (request.replayed_steps, request.learning.updates) == (replay, 2)
    # Rounds of one task share its object.
    assert [round_.round for round_ in state.past] == list(range(10 - most, 10))
    assert len({ref.key for round_ in state.past for ref in round_.trajectories}) == {1: 1, 3: 2, 10: 5}[most]


def test_on_policy_algorithm_keeps_and_stores_no_round():
    world = World(make_plan("algorithm.name=ippo", "placement.rule=whole", "stop.rounds=4"), well)
    state = world.finish()
    asked = [request for request in world.invoker.asked if isinstance(request, WholeTask)]
    assert asked and not any(request.learning.past or request.replayed_steps for request in asked)
    assert state.past == ()
    assert not any("trajectory" in key or "played" in key for key in world.storage)


@given(
    rule=st.sampled_from(["packed", "fused", "split", "whole"]),
    replay=st.sampled_from([1, 40, 60, 130, 10_000]),
    every=st.integers(1, 4),
    checkpoint=st.integers(1, 6),
    kills=st.sets(st.integers(0, 150), max_size=3),
    name=st.sampled_from(["iql", "qmix"]),
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_storage_holds_what_is_learned_from(rule, replay, every, checkpoint, kills, name):
    overrides = ("stop.rounds=9", f"evaluation.every={every}", f"checkpoint_every={checkpoint}")
    world = World(plan(rule, replay, *overrides, "placement.chain=3", name=name), well)
    driver = world.finish_over_kills(kills, most_steps=2000)
    rounds = [round_.round for round_ in driver.state.past]
    assert rounds == list(range(9 - min(9, max(1, replay // 20)), 9))


def test_departed_round_is_deleted_unless_checkpoint_needs_it():
    """Rounds 0 to 3 enter and leave between two checkpoints, so no checkpoint refers to them."""
    world, left = World(plan("packed", 20, "stop.rounds=4", "checkpoint_every=100", "evaluation.every=100"), well), {}

    def look(state):
        left[state.round] = {int(key.split("/")[1]) for key in world.storage if "trajectory" in key}

    world.finish(after=look)
    # The object of the round before, and of the round in flight once it is sampled.
    assert left == {0: {0}, 1: {0, 1}, 2: {1, 2}, 3: {2, 3}, 4: {3}}


def test_buffer_objects_of_checkpoint_outlive_buffer():
    world, seen = World(plan("packed", 20, "stop.rounds=6", "checkpoint_every=3", "evaluation.every=100"), well), []
    world.finish(after=seen.append)
    held = {ref.key for ref in next(state for state in seen if state.saved == 3).past[0].trajectories}
    assert held and all("/000002/" in key for key in held)
    assert all(held <= set(state.checkpointed) for state in seen if state.saved == 3)
    assert not held & set(world.storage)


def test_changing_placement_changes_no_buffered_round():
    """Each round has another placement: one object of several rounds, one of a round, one of a rollout."""
    rules = ("whole", "packed", "split", "whole", "fused")
    world = World(plan(rules[0], 100, "stop.rounds=2", "placement.chain=2"), well)
    world.finish()
    for rule, rounds in itertools.islice(zip(rules, itertools.count(2, 2), strict=False), 1, None):
        world.plan = plan(rule, 100, f"stop.rounds={rounds}", "placement.chain=2")
        state = world.finish(world.driver())
        assert not world.missing(state)
        assert [round_.round for round_ in state.past] == list(range(max(0, rounds - 5), rounds))
    assert [len(round_.trajectories) for round_ in state.past] == [2, 1, 1, 2, 2]
