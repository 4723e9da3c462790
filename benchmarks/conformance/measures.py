"""Metrics of policies beside their return: each side's return against fixed opponents, and the share of wins."""

from pathlib import Path

import numpy as np

from coordinator.reports import load_policy
from coordinator.reports.crossplay import scores
from coordinator.reports.policy import TeamPolicy
from functions.environments import registry
from functions.episodes import Episodes
from functions.randomness import generator

EPISODES = 640
# The figures that are shares of episodes.
SHARES = ("win",)
_NUM_ENVS = 160


def sides(run: Path, reference: Path, seed: int) -> dict[str, float]:
    """Mean return per agent of each side of a run's policies, greedy, against random and reference opponents."""
    return scores(load_policy(run), load_policy(reference), EPISODES, seed)


def wins(run: Path, seed: int) -> dict[str, float]:
    """The share of episodes that a run's policies win, greedy, and their mean return summed over agents."""
    team = load_policy(run)
    blocks = [_played(team, seed, block) for block in range(EPISODES // _NUM_ENVS)]
    returns = np.concatenate([block.agent_returns().sum(axis=1) for block in blocks])
    won = np.concatenate([block.env_metrics["win"] for block in blocks])
    return {"win": float(won.mean()), "return": float(returns.mean())}


def _played(team: TeamPolicy, seed: int, block: int) -> Episodes:
    """One whole episode in each environment."""
    environment = registry.make(team.task, _NUM_ENVS)
    try:
        player, episodes = team.player(_NUM_ENVS), Episodes(_NUM_ENVS, len(team.agents))
        seen = environment.reset(generator(seed, "conformance", block))
        running = np.ones(_NUM_ENVS, dtype=np.bool_)
        while running.any():
            step = environment.step(player.act(seen).played)
            episodes.add(step, running)
            running &= ~step.ended
            player.forget(step.ended)
            seen = step.observation
        return episodes
    finally:
        environment.close()
