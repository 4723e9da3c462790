"""Datasets in columns: worked out by hand, and the order of their reads."""

import numpy as np

from marless.functions.codec import dataset_key
from marless.functions.data.dataset import RETURN, columns_at, rollout
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask
from marless.functions.environments.registry import spec
from marless.runs.inputs.datasets import as_columns

ONE = EnvSpec(("a",), (AgentClass("one", (0,), 1, 3, first_action=1),), 3)
NUMBER = EnvSpec(("a",), (AgentClass("one", (0,), 1, 1, low=(-2.0,), high=(6.0,)),), 3)


def steps(**changed):
    """An episode of 3 steps that a time limit cut, and an episode of 4 steps that the rules ended. Observations are 0
    to 6, and the final observations are 10 and 20."""
    return {
        "a/observations": np.arange(7, dtype=np.float32)[:, None], "a/actions": np.array([1, 2, 3, 1, 2, 3, 1]),
        "a/rewards": np.array([1, 2, 4, 8, 16, 32, 64], np.float32), "a/alive": np.ones(7, bool),
        "a/terminations": np.array([0, 0, 0, 0, 0, 0, 1], bool), "final/a/observations": np.array([[10.0], [20.0]]),
        "episode_starts": np.array([0, 3, 7]), **changed,
    }  # fmt: skip


def test_two_episodes_in_columns_equal_hand_computation():
    found = as_columns(steps(), ONE, 2)  # steps 0-1, 2-3 and 4-5. The last step fills no column
    assert found["observation/0"][0, :, :, 0].T.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found["action/0"][0].T.tolist() == [[0, 1], [2, 0], [1, 2]]
    assert found["reward"][0].T.tolist() == [[1, 2], [4, 8], [16, 32]]
    assert found["ended"].T.tolist() == [[False, False], [True, False], [False, False]]
    assert found[RETURN][0].T.tolist() == [[0, 0], [7, 0], [0, 0]]
    # Columns are cut after steps 1, 3 and 5, where the next step is seen, and after the episode's step 2.
    after = dict(zip(map(tuple, found["cut"].tolist()), found["cut_observation/0"][0, :, 0].tolist(), strict=True))
    assert after == {(1, 0): 2, (0, 1): 10, (1, 1): 4, (1, 2): 6}


def test_nothing_follows_an_episode_that_the_rules_ended():
    found = as_columns(steps(), ONE, 7)
    assert found["cut"].tolist() == [[2, 0]] and found["ended"][:, 0].tolist() == [0, 0, 1, 0, 0, 0, 1]
    assert found[RETURN][0, :, 0].tolist() == [0, 0, 7, 0, 0, 0, 120]


def test_numbers_are_recorded_from_their_bounds():
    found = as_columns(steps(**{"a/actions": np.array([[-2.0], [0], [2], [4], [6], [2], [2]])}), NUMBER, 7)
    np.testing.assert_allclose(found["action/0"][0, :, 0, 0], [-1, -0.5, 0, 0.5, 1, 0, 0])


def test_a_rollout_has_its_columns_and_their_cuts():
    found = rollout(as_columns(steps(), ONE, 2), np.array([2, 1, 2]))
    assert found["observation/0"][0, :, :, 0].T.tolist() == [[4, 5], [2, 3], [4, 5]]
    after = dict(zip(map(tuple, found["cut"].tolist()), found["cut_observation/0"][0, :, 0].tolist(), strict=True))
    assert after == {(1, 0): 6, (0, 1): 10, (1, 1): 4, (1, 2): 6}


def test_every_column_is_read_before_any_repeats():
    order = columns_at(5, 0, 30, 10)
    for start in (0, 10, 20):
        assert sorted(order[start : start + 10]) == list(range(10))
    assert (order[:10] != order[10:20]).any()
    pieces = np.concatenate([columns_at(5, first, 6, 10) for first in range(0, 30, 6)])
    np.testing.assert_array_equal(pieces, order)
    assert (columns_at(6, 0, 30, 10) != order).any()


def test_dataset_of_earlier_run_keeps_its_key():
    """Commit a3539dfe wrote this key. Its environments did not describe entities."""
    described = spec(EnvTask(name="mpe/simple_spread"))
    assert described.classes[0].entities
    assert dataset_key(described) == "rounds/offline-3b1d11e841d7c1e7.dataset.safetensors"
