"""Critics of the PPO family: their inputs, and steps by `critic_lr`."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import SIZE, context, spec

from marless.functions.algorithms import registry
from marless.functions.algorithms.ppo.specs import MappoConfig
from marless.testing.algorithms.conformance import check
from marless.testing.algorithms.random_tasks import TASKS

SMALL = {"hidden": [8, 8], "epochs": 1, "num_minibatches": 2}
BOTH = SMALL | {"critic_input": "state+observation"}
STATE = 5


def reading(found, entry):
    """The round with critics that value a step by one entry of their inputs, times 1e-4, where tanh is linear."""
    tensors = dict(found.tensors)
    for key, array in found.tensors.items():
        if key.startswith("critic/"):
            tensors[key] = np.zeros_like(array)
            if key.endswith(("/w0", "/w1", "/w2")):
                place, weight = (entry, 1e-4) if key.endswith("/w0") else (0, 1)
                tensors[key][place, 0] = weight
    return replace(found, tensors=tensors)


@pytest.mark.parametrize("state_size", [STATE, 0])
@pytest.mark.parametrize(("group", "agents"), [(0, [0, 2]), (1, [1])])
def test_an_agents_own_observation_comes_after_the_state(group, agents, state_size):
    found, algorithm = context("mappo", spec("one choice", state_size=state_size), BOTH)
    batch, wide = found.batch, state_size or 3 * SIZE
    postprocess = registry.implementation(algorithm).STAGES["postprocess"]
    own = np.stack([batch.of(batch.observations, agent) for agent in agents])
    for entry, seen in ((1, np.stack([batch.state[..., 1]] * len(agents))), (wide + 2, own[..., 2])):
        values = postprocess(reading(found, entry), group).tensors[f"value/g{group:02d}"]
        np.testing.assert_allclose(values, 1e-4 * seen[batch.alive[agents]], rtol=0, atol=1e-9)
        assert np.ptp(values) > 1e-4


def test_observation_after_cut_is_of_same_agent():
    """With λ 0 a target is the reward and half the value that follows."""
    found, algorithm = context("mappo", spec("one choice"), BOTH | {"gae_lambda": 0.0, "gamma": 0.5})
    batch, code = found.batch, registry.implementation(algorithm)
    tensors = code.STAGES["postprocess"](reading(found, STATE + 2), 1).tensors
    mean, square, weight = tensors["normaliser/g01"]
    targets = np.full(batch.ended.shape, np.nan)
    targets[batch.alive[1]] = tensors["target/g01"] * np.sqrt(square / weight - (mean / weight) ** 2) + mean / weight
    goes_on = [batch.alive[1, t, e] and not batch.terminated[1, t, e] for t, e in batch.cut]
    steps = tuple(batch.cut[goes_on].T)
    after = 1e-4 * batch.of(batch.cut_observations, 1)[goes_on, 2]
    np.testing.assert_allclose(targets[steps], batch.rewards[1][steps] + 0.5 * after, rtol=0, atol=1e-9)
    assert np.abs(after).max() > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("recurrent", [False, True])
def test_stages_and_merges_keep_their_rules(recurrent):
    task = TASKS["two sides" if recurrent else "unequal agents with masks and a state"]
    assert check(registry.algorithm("mappo"), BOTH | {"recurrent": recurrent}, [task]) == ()


def learned(stage, **settings):
    """The tensors of `stage` after a round, with one agent's targets and advantages."""
    scene, algorithm = context("mappo", spec("one choice"), SMALL | settings)
    stages = registry.implementation(algorithm).STAGES
    scene.tensors.update(stages["postprocess"](scene, 1).tensors)
    return stages[stage](scene, 1).tensors


def moved(tensors, others):
    return max(float(np.abs(tensors[key] - others[key]).max()) for key in tensors if key.split("/")[-1].startswith("w"))


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_only_critic_steps_with_its_own_size(engine):
    both = {"lr": 1e-3, "critic_lr": 1e-2, "engine": engine}
    assert moved(learned("critic", **both), learned("critic", lr=1e-2, engine=engine)) == 0.0
    assert moved(learned("critic", **both), learned("critic", lr=1e-3, engine=engine)) > 1e-3
    assert moved(learned("policy", **both), learned("policy", lr=1e-3, engine=engine)) == 0.0


def test_both_engines_take_the_same_steps():
    both = {"lr": 1e-3, "critic_lr": 1e-2}
    assert moved(learned("critic", **both, engine="torch"), learned("critic", **both, engine="numpy")) < 1e-5


def test_critic_step_size_follows_lr_schedule():
    assert MappoConfig(lr=0.001, critic_lr=0.004, lr_schedule="linear").at(0.5).critic_lr == 0.002
    assert MappoConfig(lr=0.001, lr_schedule="linear").at(0.5).critic_lr is None
