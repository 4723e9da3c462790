"""What values promise beyond what came, against a walk through the round step by step."""

from dataclasses import replace

import numpy as np
import pytest
from test_value_exactness import APART, COPIES, PAIRED, STEPS, Scene

from functions.algorithms import registry as algorithms
from functions.learner import stages

GAMMA = 0.8
# Of the normaliser of `Scene`: weight 0.004, mean 0.5, mean square 2.5, level 0.3.
SCALE, OFFSET = 1.5, 0.3


def scene_of(name, team=PAIRED, sides=(), **settings):
    """Networks that give 0.3 for every action, their targets 0.7, and a mixer of zeros."""
    scene = Scene(name, team, sides, gamma=GAMMA, norm_cap=10.0, **settings)
    for key, array in scene.tensors.items():
        part = key.split("/")[0]
        if part in ("policy", "target", "mixer", "mixer_target"):
            last = key.endswith("/b2") and not part.startswith("mixer")
            scene.tensors[key] = np.full_like(array, {"policy": 0.3, "target": 0.7}[part]) if last else array * 0
    return scene


def figures(scene, updates=range(1, 2)):
    """What the last update tells, on all of the first unit as the round's data."""
    batch = scene.window.of(np.arange(COPIES), STEPS)
    context = replace(scene.context(2, scene.tensors), batch=batch)
    code, groups = algorithms.implementation(scene.algorithm), sorted(set(scene.team.groups))
    names = [stage.name for stage in scene.algorithm.stages]
    told = stages.run(scene.algorithm, code, context, stages.Share(names, groups, updates)).figures
    return batch, {key: value for key, value in told.items() if "overestimation" in key}


def followed(rewards, over, ended, tail, t, e):
    """Discounted rewards ``[T, E]`` from a step on, in their own unit; `tail` ``[T, E]`` where it was cut off."""
    total, weight = 0.0, 1.0
    for step in range(t, STEPS):
        total, weight = total + weight * rewards[step, e], weight * GAMMA
        if over[step, e]:
            return total
        if ended[step, e] or step == STEPS - 1:
            return total + weight * tail[step, e]
    raise AssertionError


def mean_gap(values, rewards, over, ended, tail, counted):
    return np.mean([values[t, e] - followed(rewards, over, ended, tail, t, e) for t, e in np.argwhere(counted)])


@pytest.mark.parametrize("standardise", [True, False])
def test_of_independent_learners_every_agent_has_a_figure(standardise):
    scene, unit = scene_of("iql", reward="own", standardise=standardise), SCALE if standardise else 1.0
    batch, found = figures(scene)
    expected, living = {}, batch.alive
    for agent in range(4):
        value, tail = (np.full((STEPS, COPIES), given * unit + OFFSET) for given in (0.3, 0.7))
        over = batch.terminated[agent]
        expected[agent] = mean_gap(value, batch.rewards[agent], over, batch.ended, tail, living[agent])
    assert found.keys() == {
        "policy/overestimation/g00", "policy/overestimation_a00/g00", "policy/overestimation_a02/g00",
        "policy/overestimation/g01", "policy/overestimation/g03",
    }  # fmt: skip
    for agent, group in ((0, 0), (2, 0)):
        assert found[f"policy/overestimation_a{agent:02d}/g{group:02d}"] == pytest.approx(expected[agent])
    assert found["policy/overestimation/g01"] == pytest.approx(expected[1])
    rows = [living[agent].sum() for agent in (0, 2)]
    assert found["policy/overestimation/g00"] == pytest.approx(np.average([expected[0], expected[2]], weights=rows))


@pytest.mark.parametrize("sides", [(), (0, 1, 0, 1)], ids=["one side", "two sides"])
@pytest.mark.parametrize("name", ["vdn", "qmix"])
def test_of_a_joint_value_every_side_has_a_figure(name, sides):
    batch, found = figures(scene_of(name, APART, sides))
    for side in ([0, 2], [1, 3]) if sides else ([0, 1, 2, 3],):
        living = batch.alive[side]
        left = living & ~batch.terminated[side]
        if name == "qmix":  # a mixer of zeros says nothing
            values = tail = np.full((STEPS, COPIES), OFFSET)
        else:
            values = (SCALE * 0.3 + OFFSET / len(side)) * living.sum(axis=0)
            tail = (SCALE * 0.7 + OFFSET / len(side)) * left.sum(axis=0)
        rewards, over = batch.rewards[side].sum(axis=0), ~left.any(axis=0)
        expected = mean_gap(values, rewards, over, batch.ended, tail, living.any(axis=0))
        assert found.pop(f"mix/overestimation/g{side[0]:02d}") == pytest.approx(expected)
    assert not found


def test_it_is_told_in_the_last_update_only():
    assert figures(scene_of("vdn", APART), range(1))[1] == {}
    assert figures(scene_of("iql"), range(1))[1] == {}


def test_where_time_limits_are_ends_nothing_stands_in_for_the_rest():
    batch, found = figures(scene_of("iql", APART, reward="own", time_limit="terminal"))
    cut = np.zeros((STEPS, COPIES), bool)
    cut[batch.cut[:, 0], batch.cut[:, 1]] = True
    over = batch.terminated[1] | (batch.ended & cut)
    value, tail = (np.full((STEPS, COPIES), given * SCALE + OFFSET) for given in (0.3, 0.7))
    expected = mean_gap(value, batch.rewards[1], over, batch.ended, tail, batch.alive[1])
    assert found["policy/overestimation/g01"] == pytest.approx(expected)
