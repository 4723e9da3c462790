"""Critics of the PPO family that step with `critic_lr`, policies with `lr`."""

import numpy as np
import pytest
from synthetic import context, spec

from marless.functions.algorithms import registry
from marless.functions.algorithms.ppo.specs import MappoConfig

SETTINGS = {"hidden": [8, 8], "epochs": 1, "num_minibatches": 2}


def learned(stage, **settings):
    """The tensors of `stage` after a round, with one agent's targets and advantages."""
    scene, algorithm = context("mappo", spec("one choice"), SETTINGS | settings)
    stages = registry.implementation(algorithm).STAGES
    scene.tensors.update(stages["postprocess"](scene, 1).tensors)
    return stages[stage](scene, 1).tensors


def moved(tensors, others):
    return max(float(np.abs(tensors[key] - others[key]).max()) for key in tensors if key.split("/")[-1].startswith("w"))


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_critic_steps_with_its_own_size_and_a_policy_does_not(engine):
    both = {"lr": 1e-3, "critic_lr": 1e-2, "engine": engine}
    assert moved(learned("critic", **both), learned("critic", lr=1e-2, engine=engine)) == 0.0
    assert moved(learned("critic", **both), learned("critic", lr=1e-3, engine=engine)) > 1e-3
    assert moved(learned("policy", **both), learned("policy", lr=1e-3, engine=engine)) == 0.0


def test_both_engines_take_the_same_steps():
    both = {"lr": 1e-3, "critic_lr": 1e-2}
    assert moved(learned("critic", **both, engine="torch"), learned("critic", **both, engine="numpy")) < 1e-5


def test_it_falls_with_the_schedule_of_lr_and_stays_unset_where_it_is():
    assert MappoConfig(lr=0.001, critic_lr=0.004, lr_schedule="linear").at(0.5).critic_lr == 0.002
    assert MappoConfig(lr=0.001, lr_schedule="linear").at(0.5).critic_lr is None
