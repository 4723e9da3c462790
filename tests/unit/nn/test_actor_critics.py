"""IPPO, MAPPO, HAPPO and the critics of IDDPG and MADDPG on tasks with known solutions."""

import numpy as np
import pytest
from seeds import each_seed, slow
from trained_teams import returned, train, trained_policy

from marless.functions.environments.base import EnvTask, Observation
from marless.functions.nn import recurrent

PPO = {"gamma": 0.9, "hidden": [16], "lr": 0.01, "epochs": 4, "num_minibatches": 2}
DDPG = {
    "gamma": 0.9, "hidden": [16], "batch_size": 128, "updates_per_round": 60, "buffer_size": 10_000, "lr": 5e-3,
    "critic_lr": 0.02, "regularisation": 0.1, "tau": 0.1, "standardise_rewards": False,
}  # fmt: skip
CORRIDOR = "toy/corridor"
# The cells of the corridor, which its agents observe as a one-hot.
CELLS = np.eye(4, dtype=np.float32)


@each_seed
@pytest.mark.parametrize("name", ["ippo", "mappo", "happo"])
def test_jointly_settling_policies_solve_the_penalty_game(name, seed):
    """Row means 1, 2/3, 1: with a random partner the corners are worth little more. Then the pair settles on one."""
    task = EnvTask(name="matrix/penalty", options={"k": -7})
    assert returned(task, trained_policy(task, name, PPO, rounds=25, num_envs=64, seed=seed)) == 10


@each_seed
@pytest.mark.parametrize(("time_limit", "walks"), [("bootstrap", [1, 1, 1, 1]), ("terminal", [0, None, 1, 1])])
@pytest.mark.parametrize("name", ["ippo", "mappo"])
def test_policies_walk_corridor_only_when_limits_truncate(name, time_limit, walks, seed):
    """See `marless.functions.environments.corridor`: an algorithm that treats a time limit as terminal sees nothing
    after the first leg. A policy that takes in the first cell never reaches the second."""
    settings = {**PPO, "time_limit": time_limit}
    policy = trained_policy(EnvTask(name=CORRIDOR), name, settings, rounds=25, num_envs=64, seed=seed)
    seen = Observation(values=(np.stack([CELLS, CELLS], axis=1),), alive=np.ones((4, 2), bool))
    for agent in policy.outputs(seen)[0][0].argmax(axis=2).tolist():
        assert [walk if expected is not None else None for walk, expected in zip(agent, walks, strict=True)] == walks


@pytest.mark.slow
@each_seed
@pytest.mark.parametrize(("time_limit", "going_on"), [("bootstrap", [7.29, 8.1, 9, 10]), ("terminal", [0, 9, 10])])
@pytest.mark.parametrize("name", [slow("iddpg"), "maddpg"])
def test_critics_value_corridor_like_hand_computation(name, time_limit, going_on, seed):
    """In the first cell `terminal` has no exact value: it is 0.9 times the then current policy's in the second.

    A single agent: with two, a central critic sees few pairs with a dead partner.
    """
    settings = {**DDPG, "reward": "own", "time_limit": time_limit}
    _, tensors = train(EnvTask(name=CORRIDOR, agents=1), name, settings, rounds=12, num_envs=64, seed=seed)
    critic, level = recurrent.weights_of(tensors, "critic/g00"), tensors["normaliser/g00"][3]
    take, on = (
        critic.forward(np.concatenate([CELLS, np.tile(done, (4, 1))], axis=1)).outputs[:, 0] + level
        for done in np.eye(2, dtype=np.float32)
    )
    np.testing.assert_allclose(take, np.ones(4), atol=0.1)
    np.testing.assert_allclose(on[-len(going_on) :], going_on, atol=0.1)
