"""The excess of predicted values over returns, against a plain step-by-step computation."""

from dataclasses import replace

import numpy as np
import pytest
from value_scenes import APART, NUM_ENVS, PAIRED, STEPS, Scene

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.learner import stages

GAMMA = 0.8
# The normaliser of `Scene`: weight 0.004, mean 0.5, mean square 2.5, level 0.3.
SCALE, OFFSET = 1.5, 0.3


def scene_of(name, team=PAIRED, sides=(), **settings):
    """Networks and critics that give 0.3 for every action, their targets 0.7, and a mixer of zeros."""
    given = {"policy": 0.3, "target": 0.7, "critic": 0.3, "critic_target": 0.7}
    scene = Scene(name, team, sides, gamma=GAMMA, max_grad_norm=10.0, **settings)
    for key, array in scene.tensors.items():
        part = key.split("/")[0]
        if part in (*given, "mixer", "mixer_target"):
            scene.tensors[key] = (
                np.full_like(array, given[part]) if part in given and key.endswith("/b2") else array * 0
            )
    return scene


def metrics(scene, updates=range(1, 2)):
    """The metrics of the last update, with all of the first rollout as the round's data."""
    batch = scene.replay_buffer.segments_from(np.arange(NUM_ENVS), STEPS)
    context = replace(scene.context(2, scene.tensors), batch=batch)
    code, groups = algorithms.implementation(scene.algorithm), sorted(set(scene.team.groups))
    names = [stage.name for stage in scene.algorithm.stages]
    update_metrics = stages.run(scene.algorithm, code, context, Share(names, groups, updates)).metrics
    return batch, {key: value for key, value in update_metrics.items() if "overestimation" in key}


def followed(rewards, over, ended, tail, t, e):
    """Discounted rewards ``[T, E]`` from a step on, in their own units. `tail` ``[T, E]`` where it was cut off."""
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


@pytest.mark.parametrize("standardise_rewards", [True, False])
@pytest.mark.parametrize(("name", "stage"), [("iql", "policy"), ("iddpg", "critic"), ("maddpg", "critic")])
def test_every_agent_with_own_values_has_metric(name, stage, standardise_rewards):
    scene, scale = (
        scene_of(name, reward="own", standardise_rewards=standardise_rewards),
        SCALE if standardise_rewards else 1.0,
    )
    batch, found = metrics(scene)
    expected, living = {}, batch.alive
    for agent in range(4):
        value, tail = (np.full((STEPS, NUM_ENVS), given * scale + OFFSET) for given in (0.3, 0.7))
        over = batch.terminated[agent]
        expected[agent] = mean_gap(value, batch.rewards[agent], over, batch.ended, tail, living[agent])
    rows = [living[agent].sum() for agent in (0, 2)]
    assert found == {
        f"{stage}/overestimation/g00": pytest.approx(np.average([expected[0], expected[2]], weights=rows)),
        f"{stage}/overestimation_a00/g00": pytest.approx(expected[0]),
        f"{stage}/overestimation_a02/g00": pytest.approx(expected[2]),
        f"{stage}/overestimation/g01": pytest.approx(expected[1]),
        f"{stage}/overestimation/g03": pytest.approx(expected[3]),
    }


@pytest.mark.parametrize("sides", [(), (0, 1, 0, 1)], ids=["one side", "two sides"])
@pytest.mark.parametrize("name", ["vdn", "qmix"])
def test_every_side_with_joint_value_has_metric(name, sides):
    batch, found = metrics(scene_of(name, APART, sides))
    for side in ([0, 2], [1, 3]) if sides else ([0, 1, 2, 3],):
        living = batch.alive[side]
        left = living & ~batch.terminated[side]
        if name == "qmix":  # a mixer of zeros gives 0
            values = tail = np.full((STEPS, NUM_ENVS), OFFSET)
        else:
            values = (SCALE * 0.3 + OFFSET / len(side)) * living.sum(axis=0)
            tail = (SCALE * 0.7 + OFFSET / len(side)) * left.sum(axis=0)
        rewards, over = batch.rewards[side].sum(axis=0), ~left.any(axis=0)
        expected = mean_gap(values, rewards, over, batch.ended, tail, living.any(axis=0))
        assert found.pop(f"mix/overestimation/g{side[0]:02d}") == pytest.approx(expected)
    assert not found


def test_it_is_reported_in_the_last_update_only():
    assert metrics(scene_of("vdn", APART), range(1))[1] == {}
    assert metrics(scene_of("iql"), range(1))[1] == {}
    assert metrics(scene_of("maddpg"), range(1))[1] == {}


def test_target_critic_values_target_policy_at_cut():
    scene = scene_of("iddpg", APART, reward="own", hidden=[1])
    seen, liked = scene.spec.classes[1].observation_size, 2
    for part, value in (("critic", 0.3), ("critic_target", 0.7)):
        scene.tensors[f"{part}/g01/b1"] = np.array([value])
    scene.tensors["critic_target/g01/w0"][seen + liked] = 1.0  # this action is worth one more, but for tanh
    scene.tensors["critic_target/g01/w1"][:] = 1.0
    scene.tensors["target/g01/b1"] = np.eye(4)[liked]
    batch, found = metrics(scene)
    tail, legal = np.full((STEPS, NUM_ENVS), np.nan), batch.cut_masks[1][0][:, liked]
    assert legal.any() and not legal.all()
    tail[batch.cut[:, 0], batch.cut[:, 1]] = (0.7 + np.tanh(1.0 * legal)) * SCALE + OFFSET
    values, over = np.full((STEPS, NUM_ENVS), 0.3 * SCALE + OFFSET), batch.terminated[1]
    expected = mean_gap(values, batch.rewards[1], over, batch.ended, tail, batch.alive[1])
    assert found["critic/overestimation/g01"] == pytest.approx(expected)


def test_terminal_time_limits_are_not_bootstrapped():
    batch, found = metrics(scene_of("iql", APART, reward="own", time_limit="terminal"))
    cut = np.zeros((STEPS, NUM_ENVS), bool)
    cut[batch.cut[:, 0], batch.cut[:, 1]] = True
    over = batch.terminated[1] | (batch.ended & cut)
    value, tail = (np.full((STEPS, NUM_ENVS), given * SCALE + OFFSET) for given in (0.3, 0.7))
    expected = mean_gap(value, batch.rewards[1], over, batch.ended, tail, batch.alive[1])
    assert found["policy/overestimation/g01"] == pytest.approx(expected)
