"""What is told of an update beside its tensors: figures of a group, and of each of its agents by itself.

Figures of agents are `<figure>_<agent>` beside the group's `<figure>`, in groups of several agents; a gradient is of a
whole network, so its norm is the group's alone. They are told in the round's last update, the only one whose figures
are kept.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.advantages import Flags
from functions.algorithms.base import AlgorithmConfig, Context
from functions.keys import agent_name
from functions.nn.mlp import Array

# Of larger groups the group's figures alone are told, so that lines of metrics and messages stay short.
MOST_AGENTS = 32
# In names of tensors: of all that the round played, not of a minibatch.
OWN = "_own"


def due(context: Context[AlgorithmConfig]) -> bool:
    """Whether this is the round's last update, whose figures are told; `context` must not be a minibatch's."""
    return bool(context.update == context.config.updates_per_round - 1)


class ByAgent(NamedTuple):
    """The rows of `agents` that count, agent by agent: `counts` ``[n]`` says how many each has; one count for all where
    nobody has rows of its own."""

    agents: Sequence[int]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, agents: Sequence[int], counted: Flags) -> Self:
        """Those marked ``[n, T, E]``; with no `agents` those of a side ``[T, E]``."""
        return cls(agents, counted.reshape(len(agents) or 1, -1).sum(axis=1))

    def means(self, values: Mapping[str, Array]) -> dict[str, float]:
        """The means of named values ``[rows]``; 0 where there is no row."""
        metrics = {}
        for name, rows in values.items():
            sums = np.bincount(self._owners, weights=rows, minlength=len(self.counts))
            metrics[name] = float(sums.sum() / max(1, len(rows)))
            if self._apart:
                each = zip(self.agents, sums / np.maximum(self.counts, 1), strict=True)
                metrics |= {f"{name}_{agent_name(agent)}": float(mean) for agent, mean in each}
        return metrics

    def explained_variance(self, values: Array, targets: Array) -> dict[str, float]:
        """That of the group and of each agent, from what was foretold and what came, both ``[rows]``."""
        metrics = {"explained_variance": explained_variance(values, targets)}
        if self._apart:
            ends = self.counts.cumsum()
            for agent, start, end in zip(self.agents, ends - self.counts, ends, strict=True):
                own = explained_variance(values[start:end], targets[start:end])
                metrics[f"explained_variance_{agent_name(agent)}"] = own
        return metrics

    @property
    def _apart(self) -> bool:
        return 1 < len(self.agents) <= MOST_AGENTS

    @property
    def _owners(self) -> NDArray[np.int64]:
        """The place of the agent that each row is of ``[rows]``."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def explained_variance(values: Array, targets: Array) -> float:
    """``1 - Var[t - v] / Var[t]``: 1 where values foretell all that differs, 0 where they say no more than a constant;
    0 without a row, too."""
    if not len(targets):
        return 0.0
    return float(1 - np.var(targets - values) / max(float(np.var(targets)), 1e-12))
