"""A table for every agent, of episodes of training: a row for every step, which says where it is from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.exports.episode_recording import Arrays, Episode
from marless.exports.sampled_episodes import SampledEpisode

# The columns of an agent, by the names of `Episode.steps` without the agent's.
_COLUMNS = {
    "observations": "observation",
    "masks": "mask",
    "actions": "action",
    "log_probabilities": "log_probability",
    "rewards": "reward",
    "terminations": "terminated",
    "truncations": "truncated",
    "alive": "alive",
}


def agent_table(episodes: Sequence[SampledEpisode], agent: str) -> Arrays:
    """The agent's columns by name ``[steps, ...]``: agent, version, policies, the columns of `places` and `numbers`.
    Then come its observations, actions and rewards, and the task's state, if any."""
    versions, hashes = zip(*(one.versions[agent] for one in episodes), strict=True)
    steps = [name for name in episodes[0].steps if name.rpartition("/")[0] == agent]
    arrays = {name.rpartition("/")[2]: np.concatenate([one.steps[name] for one in episodes]) for name in steps}
    table = {
        "agent": by_step(episodes, [agent] * len(episodes)),
        "version": by_step(episodes, versions),
        "policies": by_step(episodes, hashes),
        **places(episodes),
        **numbers(episodes),
        **{column: arrays[name] for name, column in _COLUMNS.items() if name in arrays},
    }
    if "state" in episodes[0].steps:
        table["state"] = np.concatenate([one.steps["state"] for one in episodes])
    return table


def places(episodes: Sequence[SampledEpisode]) -> Arrays:
    """Of every step the round, counted from 1, the number of the rollout in it, and of the environment in that, from
    0."""
    return {
        "round": by_step(episodes, [one.origin.round + 1 for one in episodes]),
        "rollout": by_step(episodes, [one.rollout for one in episodes]),
        "environment": by_step(episodes, [one.environment for one in episodes]),
    }


def numbers(episodes: Sequence[Episode]) -> Arrays:
    """Of every step the number of its episode in the export, and its number in the episode, from 0."""
    return {
        "episode": by_step(episodes, range(len(episodes))),
        "step": np.concatenate([np.arange(one.length) for one in episodes]),
    }


def by_step(episodes: Sequence[Episode], values: Sequence[int | str]) -> NDArray[Any]:
    """A value for every episode, repeated for each of its steps."""
    return np.repeat(np.array(values), [one.length for one in episodes])
