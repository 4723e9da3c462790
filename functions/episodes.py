"""Returns and metrics of episodes, accumulated while environments are stepped."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.environments.base import BoolArray, Step


class Episodes:
    """Undiscounted returns of E environments and N agents; an episode is added whenever an environment ends."""

    def __init__(self, num_envs: int, agents: int) -> None:
        self._running = np.zeros((num_envs, agents))
        self._finished: list[NDArray[np.float64]] = []
        self.env_metrics: dict[str, list[float]] = {}

    def add(self, step: Step, counted: BoolArray | None = None) -> None:
        """Adds a step's rewards, and the episodes that ended in environments that are `counted` (all by default)."""
        self._running += step.rewards
        if step.final is None:
            return
        rows = np.flatnonzero(step.ended if counted is None else step.ended & counted)
        self._finished.append(self._running[rows])
        self._running[step.ended] = 0.0
        for name, values in step.env_metrics.items():
            self.env_metrics.setdefault(name, []).extend(values[rows].tolist())

    def agent_returns(self) -> NDArray[np.float64]:
        """``[episodes, N]`` in the order in which the episodes ended."""
        return np.concatenate([np.empty((0, self._running.shape[1])), *self._finished])


class Summary(NamedTuple):
    """Sums over agents per episode, means per agent, and means of the environment's metrics."""

    returns: tuple[float, ...]
    agent_means: tuple[float, ...]
    env_metrics: dict[str, float]


def summary(parts: Sequence[Episodes]) -> Summary:
    """The episodes of several parts in the order given; metrics without a value are left out."""
    agent_returns = np.concatenate([part.agent_returns() for part in parts])
    metrics: dict[str, list[float]] = {}
    for part in parts:
        for name, values in part.env_metrics.items():
            metrics.setdefault(name, []).extend(values)
    return Summary(
        tuple(agent_returns.sum(axis=1).tolist()),
        tuple(agent_returns.mean(axis=0).tolist()) if len(agent_returns) else (),
        {name: float(np.mean(values)) for name, values in metrics.items() if values},
    )
