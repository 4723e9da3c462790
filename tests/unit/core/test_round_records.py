"""Sides, environment metrics and exploration in metrics.jsonl and at the end of a run, over whole runs with scripted
functions."""

import msgspec
import pytest
from simulated import SPEC, World, answered, make_plan, said

from marless.coordinator.core.apply import apply
from marless.coordinator.core.events import Resumed
from marless.functions import codec, keys
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.learner import WholeTask

COMPETING = msgspec.structs.replace(SPEC, sides=(0, 1))


def competing(function, request):
    """Every sampled episode gives each agent -0.5. Evaluated ones give agent a 1 and agent b -3."""
    item = answered(function, request, spec=COMPETING)
    if not isinstance(request, EvaluateTask):
        return [item]
    done = said(item)
    reply = msgspec.structs.replace(done.reply, agent_returns=(1.0, -3.0))
    body = msgspec.json.encode(msgspec.structs.replace(done, reply=reply))
    return [msgspec.structs.replace(item, body=body)]


def test_lines_say_what_each_side_got():
    world = World(make_plan("stop.rounds=4", "sharing.rule=none"), competing)
    world.finish()
    assert [line.side_returns for line in world.journal] == [{"a": -0.5, "b": -0.5}] * 4
    evaluated = [line.evaluation.side_returns for line in world.journal if line.evaluation]
    assert evaluated == [{"a": 1.0, "b": -3.0}]


def test_evaluation_parts_weigh_by_their_episodes():
    def uneven(function, request):
        item = competing(function, request)[0]
        if isinstance(request, EvaluateTask) and request.part:
            done = said(item)
            reply = msgspec.structs.replace(done.reply, agent_returns=(7.0, 0.0))
            return [msgspec.structs.replace(item, body=msgspec.json.encode(msgspec.structs.replace(done, reply=reply)))]
        return [item]

    many = ("evaluation.episodes=4", "evaluation.episodes_per_invocation=3")
    world = World(make_plan("stop.rounds=3", *many), uneven)
    world.finish()
    # Three episodes of 1 and -3, one of 7 and 0.
    [found] = [line.evaluation.side_returns for line in world.journal if line.evaluation]
    assert found == {"a": 2.5, "b": -2.25}


def scoring(of):
    """A script with an environment that reports `of(task)` of evaluated episodes."""

    def script(function, request):
        item = answered(function, request)
        if not isinstance(request, EvaluateTask):
            return [item]
        done = said(item)
        reply = msgspec.structs.replace(done.reply, env_metrics=of(request))
        return [msgspec.structs.replace(item, body=msgspec.json.encode(msgspec.structs.replace(done, reply=reply)))]

    return script


UNEVEN = ("evaluation.episodes=4", "evaluation.final_episodes=5", "evaluation.episodes_per_invocation=3")


def test_environment_metrics_are_means_over_evaluation_episodes():
    world = World(make_plan("stop.rounds=3", *UNEVEN), scoring(lambda task: {"win": 1.0 - task.part, "time": 0.5}))
    state = world.finish()
    # Parts of three episodes and one. Of three and two. The absolute metric has fourteen parts, of 40 episodes.
    [found] = [line.evaluation.env_metrics for line in world.journal if line.evaluation]
    assert found == {"time": 0.5, "win": 0.75}
    assert state.final_env_metrics == {"time": 0.5, "win": pytest.approx(3 / 5)}
    parts = [(1.0 - part, 3 if part < 13 else 1) for part in range(14)]
    expected = sum(value * episodes for value, episodes in parts) / 40
    assert state.absolute_env_metrics == {"time": 0.5, "win": pytest.approx(expected)}


def test_part_without_metric_does_not_count_for_it():
    silent = scoring(lambda task: {"win": 0.25, "late": 2.0} if task.part else {"win": 0.5})
    world = World(make_plan("stop.rounds=3", *UNEVEN), silent)
    world.finish()
    [found] = [line.evaluation.env_metrics for line in world.journal if line.evaluation]
    assert found == {"late": 2.0, "win": (3 * 0.5 + 0.25) / 4}


def test_team_without_metrics_records_none():
    world = World(make_plan("stop.rounds=3"))
    state = world.finish()
    assert all((line.side_returns, line.exploration) == ({}, 0.0) for line in world.journal)
    evaluations = [line.evaluation for line in world.journal if line.evaluation]
    assert evaluations and all((found.side_returns, found.env_metrics) == ({}, {}) for found in evaluations)
    assert (state.final_env_metrics, state.absolute_env_metrics) == ({}, {})
    assert all(b"env_metrics" not in msgspec.json.encode(line.evaluation) for line in world.journal)
    assert b"_scalars" not in msgspec.json.encode(state)


def test_continued_run_loses_its_final_metrics():
    state = World(make_plan("stop.rounds=2"), scoring(lambda task: {"win": 1.0})).finish()
    assert (state.final_env_metrics, state.absolute_env_metrics) == ({"win": 1.0}, {"win": 1.0})
    going_on = apply(make_plan("stop.rounds=4"), state, Resumed())
    assert (going_on.final_env_metrics, going_on.absolute_env_metrics) == ({}, {})


def remembering(storage):
    """A script with tasks of several rounds that also store their rollouts."""

    def script(function, request):
        item = answered(function, request)
        if not isinstance(request, WholeTask):
            return [item]
        done, key = said(item), keys.object_key(request.address.output, "played")
        storage[key] = key.encode()
        objects = {**done.objects, "played": codec.reference(key, key.encode())}
        return [msgspec.structs.replace(item, body=msgspec.json.encode(msgspec.structs.replace(done, objects=objects)))]

    return script


@pytest.mark.parametrize("placement", ["packed", "whole"])
def test_lines_say_how_much_actors_explored(placement):
    schedule = ("algorithm.epsilon_start=1.0", "algorithm.epsilon_end=0.2", "algorithm.epsilon_steps=40")
    world = World(make_plan("algorithm.name=iql", f"placement.rule={placement}", "stop.rounds=6", *schedule))
    world.invoker.script = remembering(world.storage)
    world.finish()
    # Rounds of 10 steps: four of them from 1 to 0.2 in a straight line.
    assert [line.exploration for line in world.journal] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2])
