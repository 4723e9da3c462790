"""An agent learns to die for its team from the team's return, and not from its own."""

import pytest
from seeds import each_seed, slow
from trained_teams import returned, trained_policy

from marless.functions.environments.base import EnvTask

GAME = EnvTask(name="pettingzoo:sacrifices:game")
REPLAYING = {"updates_per_round": 40, "batch_size": 64, "buffer_size": 4000, "hidden": [16]}
SETTINGS = {
    "ippo": {"hidden": [16], "lr": 0.01},
    "mappo": {"hidden": [16], "lr": 0.01},
    "iql": {**REPLAYING, "lr": 0.01, "epsilon_end": 0.2, "epsilon_steps": 1000},
    "vdn": {**REPLAYING, "lr": 0.01, "epsilon_end": 0.2, "epsilon_steps": 1000},
    "qmix": {**REPLAYING, "lr": 0.01, "epsilon_end": 0.2, "epsilon_steps": 1000, "tau": 0.05, "max_grad_norm": 10.0},
    "iddpg": {**REPLAYING, "lr": 0.003, "critic_lr": 0.02, "tau": 0.05},
    "maddpg": {**REPLAYING, "lr": 0.003, "critic_lr": 0.02, "tau": 0.05},
    "isac": {**REPLAYING, "lr": 0.003, "critic_lr": 0.02, "tau": 0.05},
    "masac": {**REPLAYING, "lr": 0.003, "critic_lr": 0.02, "tau": 0.05},
}
JOINT = ("vdn", "qmix")
QUICK = ("mappo", "qmix", "masac")


@pytest.mark.slow
@each_seed
@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in SETTINGS])
def test_agent_dies_when_paid_as_team(name, seed):
    """A reward of 5 one step later is worth 4.5 to the team, more than the 1 that the agent could take."""
    settings = SETTINGS[name] | ({} if name in JOINT else {"reward": "team"})
    assert returned(GAME, trained_policy(GAME, name, settings, rounds=10, seed=seed)) == 5


@pytest.mark.slow
@each_seed
@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in SETTINGS if name not in JOINT])
def test_agent_takes_reward_when_paid_alone(name, seed):
    settings = {**SETTINGS[name], "reward": "own"}
    assert returned(GAME, trained_policy(GAME, name, settings, rounds=10, seed=seed)) == 1
