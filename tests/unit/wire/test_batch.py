"""Joining rollouts into one batch, on small explicit arrays."""

import numpy as np
import pytest

from marless.functions.data.batch import join, side_by_side
from marless.functions.environments.base import AgentClass, EnvSpec

# Agents 0 and 2 observe one number, agent 1 observes two.
CLASSES = (AgentClass("x", (0, 2), 1, 2), AgentClass("y", (1,), 2, 3))
SPEC = EnvSpec(("a", "b", "c"), CLASSES, horizon=2)
STEPS = 2


def rollout(number, num_envs, cut, spec=SPEC):
    """A rollout with entries 1000 rollout + 100 agent + 10 t + e. The second feature is 0.5 larger."""
    t, e = np.meshgrid(np.arange(STEPS), np.arange(num_envs), indexing="ij")
    here = 1000 * number + 10 * t + e
    by_agent = np.stack([here + 100 * agent for agent in range(3)]).astype(np.float32)
    cut = np.array(cut, int).reshape(-1, 2)
    after = np.stack([-(1000 * number + 100 * agent + 10 * cut[:, 0] + cut[:, 1]) for agent in range(3)])
    tensors = {
        "reward": by_agent,
        "terminated": by_agent > 1e6,
        "alive": by_agent >= 0,
        "ended": here > 1e6,
        "cut": cut,
    }
    for index, kind in enumerate(spec.classes):
        second = 0.5 * np.arange(kind.observation_size)
        agents = list(kind.agents)
        tensors[f"observation/{index}"] = by_agent[agents][..., None] + second
        tensors[f"action/{index}"] = tensors[f"log_probability/{index}"] = by_agent[agents]
        tensors[f"mask/{index}"] = np.ones((len(agents), STEPS, num_envs, kind.actions), bool)
        tensors[f"cut_mask/{index}"] = (after[agents] % 2 == 0)[..., None].repeat(kind.actions, axis=-1)
        tensors[f"cut_observation/{index}"] = after[agents][..., None] - second
    tensors["state"] = here[..., None].astype(np.float32)
    tensors["cut_state"] = np.full((len(cut), 1), number)
    return {f"u{number:05d}/{name}": array for name, array in tensors.items()}


def two_rollouts(spec=SPEC):
    """Rollout 3 has two environments and rollout 4 one. The rollouts' ends cut all of them, rollout 3's environment 1
    also ends at step 0."""
    return join(spec, rollout(3, 2, [[0, 1], [1, 0], [1, 1]], spec) | rollout(4, 1, [[1, 0]], spec), (3, 4))


def test_rollouts_are_joined_along_environments_in_order():
    batch = two_rollouts()
    np.testing.assert_array_equal(batch.rewards[0], [[3000, 3001, 4000], [3010, 3011, 4010]])
    assert batch.ended.shape == (STEPS, 3)
    other = join(SPEC, rollout(3, 2, []) | rollout(4, 1, []), (4, 3))
    np.testing.assert_array_equal(other.rewards[0], [[4000, 3000, 3001], [4010, 3010, 3011]])


def test_cut_names_joined_environment_and_next_observation():
    batch = two_rollouts()
    np.testing.assert_array_equal(batch.cut, [[0, 1], [1, 0], [1, 1], [1, 2]])
    after = batch.of(batch.cut_observations, 2)
    np.testing.assert_array_equal(after[:, 0], [-3201, -3210, -3211, -4210])


def test_cuts_count_the_environments_of_earlier_rollouts():
    batch = join(SPEC, rollout(3, 2, []) | rollout(4, 1, []) | rollout(5, 2, [[1, 1]]), (3, 4, 5))
    np.testing.assert_array_equal(batch.cut, [[1, 4]])
    without = join(SPEC, rollout(3, 2, []) | rollout(4, 1, []), (3, 4))
    assert (without.cut.shape, without.cut_state.shape) == ((0, 2), (0, 4))
    assert (batch.rollouts, without.rollouts, join(SPEC, rollout(3, 2, []), (3,)).rollouts) == (3, 2, 1)


def test_agent_slice_is_at_its_class_position():
    batch = two_rollouts()
    assert [batch.place(agent) for agent in range(3)] == [(0, 0), (1, 0), (0, 1)]
    np.testing.assert_array_equal(batch.of(batch.observations, 2)[1, 2], [4210])
    np.testing.assert_array_equal(batch.of(batch.observations, 1)[1, 2], [4110, 4110.5])
    with pytest.raises(ValueError, match="no agent 3"):
        batch.place(3)


def test_default_state_joins_observations_by_agent():
    batch = two_rollouts()
    np.testing.assert_array_equal(batch.state[1, 2], [4010, 4110, 4110.5, 4210])
    np.testing.assert_array_equal(batch.cut_state[3], [-4010, -4110, -4110.5, -4210])
    assert side_by_side(SPEC, batch.observations).shape == (STEPS, 3, 4)


def test_own_state_of_task_is_joined_unchanged():
    batch = two_rollouts(EnvSpec(SPEC.agents, CLASSES, horizon=2, state_size=1))
    np.testing.assert_array_equal(batch.state[..., 0], [[3000, 3001, 4000], [3010, 3011, 4010]])
    np.testing.assert_array_equal(batch.cut_state[:, 0], [3, 3, 3, 4])


def test_masks_are_joined_where_the_task_has_them():
    assert two_rollouts().masks is None
    masks = two_rollouts(EnvSpec(SPEC.agents, CLASSES, horizon=2, masked=True)).masks
    assert [part.shape for part in masks] == [(2, STEPS, 3, 2), (1, STEPS, 3, 3)]


def test_legal_actions_after_cut_are_joined_with_masks():
    assert two_rollouts().cut_masks is None
    batch = two_rollouts(EnvSpec(SPEC.agents, CLASSES, horizon=2, masked=True))
    assert [part.shape for part in batch.cut_masks] == [(2, 4, 2), (1, 4, 3)]
    # The cut rows of agent 2 are 3201, 3210, 3211 and 4210: legal where even.
    np.testing.assert_array_equal(batch.of(batch.cut_masks, 2)[:, 0], [False, True, False, True])


def test_rollouts_without_log_probabilities_are_joined_without():
    assert two_rollouts().log_probability is not None
    rollouts = rollout(3, 2, []) | rollout(4, 1, [])
    batch = join(SPEC, {name: array for name, array in rollouts.items() if "log_probability" not in name}, (3, 4))
    assert batch.log_probability is None


def test_branched_actions_are_joined_along_environments():
    rollouts = rollout(3, 2, []) | rollout(4, 1, [])
    for number in (3, 4):
        name = f"u{number:05d}/action/0"
        rollouts[name] = np.stack([rollouts[name], -rollouts[name]], axis=-1)
    batch = join(SPEC, rollouts, (3, 4))
    assert [part.shape for part in batch.actions] == [(2, STEPS, 3, 2), (1, STEPS, 3)]
    np.testing.assert_array_equal(batch.of(batch.actions, 2)[1, 2], [4210, -4210])
