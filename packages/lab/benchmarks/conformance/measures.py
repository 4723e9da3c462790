"""Metrics of policies in addition to their return: each side's return against fixed opponents, and the share of
wins."""

from pathlib import Path

import numpy as np

from marless.functions.environments import registry
from marless.functions.episode_returns import Episodes
from marless.functions.randomness import generator
from marless.reports import load_policy
from marless.reports.crossplay import scores
from marless.reports.policy import TeamPolicy

EPISODES = 640
# The figures that are shares of episodes.
SHARES = ("win",)


def sides(run: Path, reference: Path, seed: int) -> dict[str, float]:
    """Mean return per agent of each side of a run's policies, greedy, against random and reference opponents."""
    return scores(load_policy(run), load_policy(reference), EPISODES, seed)


def wins(run: Path, seed: int, num_envs: int) -> dict[str, float]:
    """The share of episodes that a run's policies win, greedy, and their mean return summed over agents. Of `num_envs`
    environments stepped together."""
    team = load_policy(run)
    blocks = [_played(team, seed, block, num_envs) for block in range(EPISODES // num_envs)]
    returns = np.concatenate([block.agent_returns().sum(axis=1) for block in blocks])
    won = np.concatenate([block.env_metrics["win"][0] for block in blocks])
    return {"win": float(won.mean()), "return": float(returns.mean())}


def _played(team: TeamPolicy, seed: int, block: int, num_envs: int) -> Episodes:
    """One whole episode in each environment."""
    environment = registry.make(team.task, num_envs)
    try:
        player, episodes = team.player(num_envs), Episodes(num_envs, len(team.agents))
        seen = environment.reset(generator(seed, "conformance", block))
        running = np.ones(num_envs, dtype=np.bool_)
        while running.any():
            step = environment.step(player.act(seen).env_actions)
            episodes.add(step, running)
            running &= ~step.ended
            player.forget(step.ended)
            seen = step.observation
        return episodes
    finally:
        environment.close()
