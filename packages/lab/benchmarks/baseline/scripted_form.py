"""Scripted play of `mpe/simple_spread`: agents approach the landmarks of the shortest assignment, and brake.

`python -m benchmarks.baseline.scripted_form SETTINGS --teams 3 4` prints the mean return of teams of these sizes.
"""

import json
from argparse import ArgumentParser
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from marless.coordinator.config.loading import load
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.randomness import generator

# Best on seed 100: an agent stops so many velocities before its landmark, and stands still so near to it.
BRAKING, NEAR = 0.25, 0.02


def actions(observations: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the actions ``[E, N]`` of agents that see ``[E, N, size]``.

    An observation begins with the velocity. The ways to landmarks follow after 4 numbers.
    """
    environments, agents, _ = observations.shape
    landmarks = observations[..., 4 : 4 + 2 * agents].reshape(environments, agents, agents, 2)
    distances = np.linalg.norm(landmarks, axis=-1)
    chosen = np.array([linear_sum_assignment(costs)[1] for costs in distances])
    ways = np.take_along_axis(landmarks, chosen[..., None, None], axis=2)[:, :, 0] - BRAKING * observations[..., :2]
    axes = np.abs(ways).argmax(axis=-1)
    lengths = np.take_along_axis(ways, axes[..., None], axis=-1)[..., 0]
    return np.where(np.abs(lengths) < NEAR, 0, 1 + 2 * axes + (lengths > 0))


def mean_return(task: EnvTask, episodes: int, seed: int) -> float:
    """Return the mean over episodes, summed over agents."""
    environment = registry.make(task, episodes)
    observation, total = environment.reset(generator(seed, "scripted")), 0.0
    for _ in range(environment.spec.horizon):
        step = environment.step((actions(observation.values[0]),))
        observation, total = step.observation, total + float(step.rewards.sum())
    return total / episodes


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the record of a baseline that learns nothing."""
    parser = ArgumentParser(prog="python -m benchmarks.baseline.scripted_form", description=__doc__)
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--teams", type=int, nargs="+", required=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    config = load(None, options.settings)
    teams = {
        str(size): mean_return(
            replace(config.task, agents=size), config.evaluation_sizes(horizon=1).final, options.seed
        )
        for size in options.teams
    }
    print(json.dumps({"points": [], "env_steps": 0, "env_steps_per_second": 0, "weights_sha256": "", "teams": teams}))


if __name__ == "__main__":
    main()
