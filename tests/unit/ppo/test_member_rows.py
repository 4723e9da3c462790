"""Groups that learn from one member's share of rows."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import context, spec

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.group_inputs import learned_from, share
from marless.functions.algorithms.specification import Share
from marless.functions.keys import group_name
from marless.functions.learner import stages

SETTINGS = {"hidden": [8, 8], "epochs": 2, "num_minibatches": 2}
GROUP = group_name(0)
ALGORITHMS = pytest.mark.parametrize("name", ["ippo", "mappo"])


def scene(name="ippo", settings=SETTINGS, num_envs=7):
    """Agents 0 and 2 are a group, agent 1 is alone."""
    found, algorithm = context(name, spec("one choice"), settings, num_envs=num_envs)
    return replace(found, rows="member"), algorithm


def learned(found, algorithm):
    names = [stage.name for stage in algorithm.stages]
    return stages.run(algorithm, algorithms.implementation(algorithm), found, Share(names, [0, 1]))


@pytest.mark.parametrize("num_envs", [1, 2, 7])
def test_every_environment_is_learned_as_its_member(num_envs):
    found, _ = scene(num_envs=num_envs)
    chosen = share(found, 0)
    assert chosen.shape == (2, 1, num_envs)
    assert (chosen.sum(axis=0) == 1).all()
    assert abs(np.diff(chosen.sum(axis=(1, 2)))[0]) <= 1
    assert share(found, 1).all() and share(found, 1).shape == (1, 1, num_envs)


def test_a_share_depends_on_its_address_alone():
    found, _ = scene(num_envs=40)
    assert (share(found, 0) == share(replace(found, tensors={}, update=1), 0)).all()
    for other in (replace(found, round=1), replace(found, seed=4)):
        assert (share(found, 0) != share(other, 0)).any()


@ALGORITHMS
@pytest.mark.parametrize("recurrent", [False, True])
def test_omitted_rows_count_like_dead_rows(name, recurrent):
    found, algorithm = scene(name, SETTINGS | {"recurrent": recurrent, "data_chunk_length": 4})
    kept = found.batch.alive.copy()
    kept[[0, 2]] = learned_from(found, 0)
    assert 0 < kept.sum() < found.batch.alive.sum()
    dead = replace(found, rows="pooled", batch=replace(found.batch, alive=kept))
    ours, theirs = learned(found, algorithm), learned(dead, algorithm)
    assert ours.tensors.keys() == theirs.tensors.keys()
    for key, array in ours.tensors.items():
        np.testing.assert_array_equal(array, theirs.tensors[key], err_msg=key)
    assert len(ours.tensors[f"target/{GROUP}"]) == len(ours.tensors[f"advantage/{GROUP}"]) == kept[[0, 2]].sum()


def test_team_reward_continues_after_death_in_learned_rows():
    found, algorithm = scene(settings=SETTINGS | {"reward": "team"})
    of_side = found.batch.alive.any(axis=0)
    assert len(learned(found, algorithm).tensors[f"target/{GROUP}"]) == of_side.sum()
