"""Metrics of an update, of a group and of each of its agents.

In groups of several agents an agent's metric is `<metric>_<agent>`, in addition to the group's `<metric>`. Gradient
norms are per network and so per group. Metrics are computed in the round's last update, because metrics of other
updates are not kept.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.advantages import Flags
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context
from marless.functions.keys import agent_name
from marless.functions.nn.layers import Array
from marless.functions.nn.normaliser import Statistics, merge_statistics, statistics_of

# Larger groups only have the group's metrics, so that messages and lines of metrics stay short.
MOST_AGENTS = 32
# Marks the names of tensors computed from the round's own data, not from a minibatch.
OWN = "_own"


def due(context: Context[AlgorithmConfig]) -> bool:
    """Return True in the round's last update: its metrics are kept. `context` must not be a minibatch's."""
    return bool(context.update == context.config.updates_per_round - 1)


class ByAgent(NamedTuple):
    """Rows ordered by agent, with `counts` ``[n]`` rows for each of the `agents`, or one count for a side's rows."""

    agents: Sequence[int]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, agents: Sequence[int], mask: Flags) -> Self:
        """The marked rows ``[n, T, E]``, or a side's rows ``[T, E]`` without `agents`."""
        return cls(agents, mask.reshape(len(agents) or 1, -1).sum(axis=1))

    def means(self, values: Mapping[str, Array]) -> dict[str, float]:
        """The means of named values ``[rows]``, or 0 without rows."""
        return self.means_of_sums(self.sums(values))

    def sums(self, values: Mapping[str, Array]) -> dict[str, NDArray[np.float64]]:
        """The sums ``[n]`` over each agent's rows of named values ``[rows]``."""
        owners, agents = self._owners, len(self.counts)
        return {name: np.asarray(np.bincount(owners, rows, agents), np.float64) for name, rows in values.items()}

    def statistics(self, values: Array) -> Statistics:
        """The statistics ``[3, n]`` of each agent's values ``[rows]``."""
        by_agent = np.split(values, self.counts.cumsum()[:-1])
        return np.concatenate([statistics_of(part[:, np.newaxis]) for part in by_agent], axis=1)

    def means_of_sums(self, sums_by_name: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
        """`means` of values that have these `sums`."""
        metrics = {}
        for name, sums in sums_by_name.items():
            metrics[name] = float(sums.sum() / max(1, self.counts.sum()))
            if self._has_several:
                agent_means = zip(self.agents, sums / np.maximum(self.counts, 1), strict=True)
                metrics |= {f"{name}_{agent_name(agent)}": float(mean) for agent, mean in agent_means}
        return metrics

    def explained_variance(self, values: Array, targets: Array) -> dict[str, float]:
        """The explained variance of the group and of each agent, from values and targets ``[rows]``."""
        metrics = {"explained_variance": explained_variance(values, targets)}
        if self._has_several:
            ends = self.counts.cumsum()
            for agent, start, end in zip(self.agents, ends - self.counts, ends, strict=True):
                of_agent = explained_variance(values[start:end], targets[start:end])
                metrics[f"explained_variance_{agent_name(agent)}"] = of_agent
        return metrics

    def explained_variance_of(self, errors: Statistics, targets: Statistics) -> dict[str, float]:
        """`explained_variance` from the statistics ``[3, n]`` of each agent's errors and targets, see
        `marless.functions.nn.normaliser.statistics_of`."""
        metrics = {"explained_variance": _explained(_together(errors.T), _together(targets.T))}
        if self._has_several:
            for agent, *of_agent in zip(self.agents, errors.T, targets.T, strict=True):
                metrics[f"explained_variance_{agent_name(agent)}"] = _explained(*of_agent)
        return metrics

    @property
    def _has_several(self) -> bool:
        return 1 < len(self.agents) <= MOST_AGENTS

    @property
    def _owners(self) -> NDArray[np.int64]:
        """The position of each row's agent ``[rows]``."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def _together(samples: Statistics) -> Statistics:
    return functools.reduce(merge_statistics, samples)


def _explained(errors: Statistics, targets: Statistics) -> float:
    return float(1 - errors[2] / max(targets[2], 1e-12 * targets[0])) if targets[0] else 0.0


def explained_variance(values: Array, targets: Array) -> float:
    """``1 - Var[t - v] / Var[t]``: 1 for perfect values, 0 for constant ones and without rows."""
    if not len(targets):
        return 0.0
    return float(1 - np.var(targets - values) / max(float(np.var(targets)), 1e-12))
