"""Returns and metrics of episodes, accumulated while environments are stepped.

An environment that is reset, stepped T times and reset at every end leaves an episode unfinished. A long episode is
unfinished more often than a short one, so the mean over all finished episodes is biased (length-biased sampling, known
from renewal theory: Cox, "Renewal Theory", 1962). If no episode is longer than T, the mean over environments of each
one's mean over finished episodes is exact. Every environment finishes its first episode, which has the expectation of
any episode. Its finished episodes are exchangeable, because any order of them leaves the same unfinished episode. So
their mean is the expectation of the first episode, given all finished episodes (Rao-Blackwell: no larger a variance
than the first episodes alone). Lengths and returns may depend on each other. Episodes of one environment must be
independent of each other and equally distributed, which holds for fixed policies.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import BoolArray, EnvironmentFault, Step


class Episodes:
    """Undiscounted returns of E environments and N agents. An episode is added whenever an environment ends."""

    def __init__(self, num_envs: int, agents: int) -> None:
        self._running = np.zeros((num_envs, agents))
        self._finished: list[NDArray[np.float64]] = []
        # The environment of every finished episode.
        self._rows: list[NDArray[np.int64]] = []
        # By metric: its values that are numbers, and the numbers of the episodes that they are of.
        self.env_metrics: dict[str, tuple[list[float], list[int]]] = {}

    def add(self, step: Step, mask: BoolArray | None = None) -> None:
        """Adds a step's rewards, and the episodes that ended in environments of `mask` (all by default)."""
        self._running += step.rewards
        if step.final is None:
            return
        rows = np.flatnonzero(step.ended if mask is None else step.ended & mask)
        first = sum(map(len, self._rows))
        self._finished.append(self._running[rows])
        self._rows.append(rows)
        self._running[step.ended] = 0.0
        for name, values in step.env_metrics.items():
            metric_values, metric_rows = self.env_metrics.setdefault(name, ([], []))
            numbers = np.flatnonzero(~np.isnan(values[rows]))
            metric_values.extend(values[rows][numbers].tolist())
            metric_rows.extend((first + numbers).tolist())

    def agent_returns(self) -> NDArray[np.float64]:
        """``[episodes, N]`` in the order of their ends. Raises `EnvironmentFault` unless all are finite."""
        returns = np.concatenate([np.empty((0, self._running.shape[1])), *self._finished])
        if not np.isfinite(returns).all():
            raise EnvironmentFault("the rewards of an episode do not add up to a finite number")
        return returns

    def first_returns(self) -> NDArray[np.float64]:
        """The `agent_returns` of the first episode of each environment, in the environments' order."""
        _, first = np.unique(np.concatenate([np.empty(0, np.int64), *self._rows]), return_index=True)
        return np.asarray(self.agent_returns()[first])

    def weights(self) -> NDArray[np.float64]:
        """By finished episode: of mean 1, and such that every environment weighs as much as any other.

        They are 1 where all environments finished as many. Raises `EnvironmentFault` where one finished none.
        """
        rows = np.concatenate([np.empty(0, np.int64), *self._rows])
        counts = np.bincount(rows, minlength=len(self._running))
        if not counts.all():
            raise EnvironmentFault("a rollout as long as the horizon did not finish an episode: it is longer than that")
        of_environment: NDArray[np.float64] = np.array(balancing(counts.tolist()))
        return np.asarray(of_environment[rows])


def balancing(counts: Sequence[float]) -> list[float]:
    """Return factors, of mean 1 over all episodes, that give parts of so many episodes equal weights. 0 for an empty
    part."""
    mean = sum(counts) / len(counts) if counts else 0.0
    return [mean / count if count else 0.0 for count in counts]


def whole_episodes(parts: Sequence[Episodes]) -> list[NDArray[np.float64]]:
    """The weights of the episodes of several parts that began with a reset, such that every environment weighs alike.

    See the top of the module. All parts have as many environments. Raises the errors of `Episodes.weights`.
    """
    part_weights = [part.weights() for part in parts]
    return [
        factor * weights
        for factor, weights in zip(balancing([len(weights) for weights in part_weights]), part_weights, strict=True)
    ]


class EpisodeSummary(NamedTuple):
    """Sums over agents per episode, means per agent, and means of the environment's metrics."""

    returns: tuple[float, ...]
    agent_means: tuple[float, ...]
    env_metrics: dict[str, float]


def summary(parts: Sequence[Episodes], weights: Sequence[NDArray[np.float64]] | None = None) -> EpisodeSummary:
    """The episodes of several parts in the order given. Metrics without a value are left out.

    `weights` are of the episodes of each part, by default 1.
    """
    by_part = [part.agent_returns() for part in parts]
    weights = [np.ones(len(metric_weights)) for metric_weights in by_part] if weights is None else weights
    agent_returns, episode_weights = np.concatenate(by_part), np.concatenate(weights)
    metrics: dict[str, tuple[list[float], list[float]]] = {}
    for part, part_weights in zip(parts, weights, strict=True):
        for name, (values, episodes) in part.env_metrics.items():
            metric_values, metric_weights = metrics.setdefault(name, ([], []))
            metric_values.extend(values)
            metric_weights.extend(part_weights[episodes].tolist())
    return EpisodeSummary(
        tuple(agent_returns.sum(axis=1).tolist()),
        tuple((agent_returns * episode_weights[:, None]).mean(axis=0).tolist()) if len(agent_returns) else (),
        {
            name: float(np.average(values, weights=metric_weights))
            for name, (values, metric_weights) in metrics.items()
            if values
        },
    )
