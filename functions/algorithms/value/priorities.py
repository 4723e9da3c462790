"""Prioritised replay: the sampling priorities of the replay buffer's segments, a part of the learner's state.

Schaul et al., "Prioritized Experience Replay", ICLR 2016, the proportional variant. A segment's error is the mean of
|TD error| over its rows that are learned from, where the paper has one transition's |TD error|. The mean is our choice:
R2D2 (Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning", ICLR 2019) mixes it with
the maximum, which takes one more setting.

Every group stores priorities, equal for all groups of a side that learns together, so that a stage reads no other
group's state. They are written together with the policy, after all stages of the update have drawn.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.advantages import Flags
from marless.functions.algorithms.off_policy.replay_minibatch import (
    Indices,
    M,
    require_replay_buffer,
    with_minibatch,
)
from marless.functions.algorithms.off_policy.specs import PRIORITIES
from marless.functions.algorithms.stage import Context
from marless.functions.algorithms.value.specs import UtilityConfig
from marless.functions.nn.layers import Array
from marless.functions.randomness import generator

Floats = NDArray[np.float64]

# Added to every error, so that a segment without error can be drawn again (the constant of OpenAI's baselines).
_EPSILON = 1e-6


def proportional_priorities(errors: Array, alpha: float, epsilon: float) -> Floats:
    """``(|δ| + epsilon) ** alpha`` of TD errors. At alpha 0 all are equal. With `epsilon` above 0 all can be drawn."""
    return (np.abs(errors.astype(np.float64)) + epsilon) ** alpha


def sample_indices(priorities: Floats, uniforms: Array) -> Indices:
    """One index per uniform number in [0, 1), each with a probability in proportion to its priority.

    Stratified, as in the paper: draw k of B falls within the k-th of B equal parts of the total. A priority of 0 is
    never drawn. Sums are in float64, so that a million small priorities count. Raises `ValueError` when priorities are
    negative, not finite or all 0.
    """
    totals = np.cumsum(priorities, dtype=np.float64)
    if not len(totals) or priorities.min() < 0 or not 0 < totals[-1] < np.inf:
        raise ValueError("priorities are numbers from 0 on, and not all are 0")
    count = len(uniforms)
    marks = (np.arange(count) + uniforms.astype(np.float64)) / count * totals[-1]
    indices = np.searchsorted(totals, marks, side="right")
    # Rounding may put the last mark on the total, beyond every index. Then take the first index that reaches the total.
    return np.asarray(np.minimum(indices, np.searchsorted(totals, totals[-1])))


def importance_weights(priorities: Floats, indices: Indices, beta: float) -> Floats:
    """Importance weights ``(N P(j)) ** -beta / max`` of the indices drawn. The maximum is over all priorities above 0.

    That is ``(least priority / own priority) ** beta``, at most 1. The maximum covers the whole buffer, so that a
    transition's weight is the same in every minibatch.
    """
    return np.asarray((priorities[priorities > 0].min() / priorities[indices]) ** beta)


class Priorities(NamedTuple):
    """The priorities of the segments of some rollouts. `rollouts` ``[U, 2]`` are their rounds and their numbers in
    these rounds. `values` ``[U * P]`` are the priorities of their P segments each, to the power of alpha. `steps`
    counts the environment steps of all rollouts that were ever in the buffer."""

    rollouts: Indices
    values: NDArray[np.float32]
    steps: int

    @classmethod
    def load(cls, context: Context[UtilityConfig], name: str) -> Self:
        """The priorities of group `name`, aligned with the context's replay buffer."""
        replay_buffer, length = require_replay_buffer(context)
        rollouts, values, steps = (
            context.tensors[f"{PRIORITIES}/{name}/{key}"] for key in ("units", "values", "steps")
        )
        segments = replay_buffer.segments_per_rollout(length)
        return cls(rollouts, values, int(steps[0])).align(replay_buffer.rollouts, segments, segments * length)

    def align(self, rollouts: Indices, segments: int, rollout_steps: int) -> Self:
        """The priorities of `rollouts`: the stored ones, and for new rollouts their maximum, or 1 if that is 0."""
        if np.array_equal(rollouts, self.rollouts):
            return self
        index_by_rollout = {rollout: index for index, rollout in enumerate(map(tuple, self.rollouts.tolist()))}
        stored_rows = np.array(
            [index_by_rollout.get(rollout, -1) for rollout in map(tuple, rollouts.tolist())], np.int64
        )
        old = stored_rows >= 0
        values = np.full((len(rollouts), segments), self.values.max(initial=0) or 1, np.float32)
        values[old] = self.values.reshape(-1, segments)[stored_rows[old]]
        return type(self)(rollouts, values.ravel(), self.steps + rollout_steps * int((~old).sum()))

    def sampling_values(self) -> Floats:
        """The priorities ``[U * P]``, or all 1 if none is above 0."""
        return self.values.astype(np.float64) if self.values.any() else np.ones(len(self.values))

    def tensors(self, name: str) -> dict[str, Array]:
        """The tensors of group `name`."""
        arrays: dict[str, Array] = {
            "units": self.rollouts,
            "values": self.values,
            "steps": np.array([self.steps], np.int64),
        }
        return {f"{PRIORITIES}/{name}/{key}": array for key, array in arrays.items()}


def initial_priorities(config: UtilityConfig, name: str) -> dict[str, Array]:
    """The tensors of group `name` at round 0, without rollouts, or {} for uniform draws."""
    if not config.priority:
        return {}
    return Priorities(np.zeros((0, 2), np.int64), np.zeros(0, np.float32), 0).tensors(name)


class Draw(NamedTuple):
    """An update's minibatch: the indices of its segments and their importance weights, both ``[B]``, or None for
    uniform draws."""

    indices: Indices | None = None
    weights: Floats | None = None

    @classmethod
    def sample(cls, context: Context[UtilityConfig], name: str) -> Self:
        """The minibatch of group `name`, drawn at the address (seed, round, "replay", update)."""
        config = context.config
        if not config.priority:
            return cls()
        assert config.batch_size is not None  # resolved
        priorities = Priorities.load(context, name)
        uniforms = generator(context.seed, context.round, "replay", context.update).random(config.batch_size)
        values = priorities.sampling_values()
        indices = sample_indices(values, uniforms)
        return cls(indices, importance_weights(values, indices, config.beta(priorities.steps)))

    @classmethod
    def load(cls, context: Context[UtilityConfig], name: str) -> Self:
        """The minibatch that an earlier stage of group `name` drew. See `tensors`."""
        if not context.config.priority:
            return cls()
        return cls(context.tensors[f"drawn/{name}"], context.tensors[f"importance/{name}"])

    def tensors(self, name: str) -> dict[str, Array]:
        """The tensors that pass the draw on to later stages of the update."""
        if self.indices is None or self.weights is None:
            return {}
        return {f"drawn/{name}": self.indices, f"importance/{name}": self.weights}

    def minibatch(self, context: Context[M]) -> Context[M]:
        """The context with the minibatch as its data."""
        return with_minibatch(context, self.indices)

    def importance(self, values: Array) -> Array | None:
        """The importance weights of rows ``[..., T, B]``, as `td_loss` takes them."""
        return None if self.weights is None else np.broadcast_to(self.weights.astype(values.dtype), values.shape)


class PriorityUpdate(NamedTuple):
    """The new priorities of a minibatch's segments, and the indices of these, both ``[B]``."""

    indices: Indices
    priorities: Floats

    @classmethod
    def of(cls, draw: Draw, config: UtilityConfig, difference: Array, loss_mask: Flags) -> "PriorityUpdate | None":
        """The update from value minus target ``[..., T, B]``, 0 outside `loss_mask`, or None for uniform draws.

        A segment without rows to learn from gets priority 0, which excludes it from draws.
        """
        if draw.indices is None:
            return None
        axes = tuple(range(loss_mask.ndim - 1))
        rows = loss_mask.sum(axis=axes)
        errors = np.abs(difference).sum(axis=axes) / np.maximum(rows, 1)
        priorities = np.where(rows > 0, proportional_priorities(errors, config.priority, _EPSILON), 0.0)
        return cls(draw.indices, priorities)

    @classmethod
    def load(cls, context: Context[UtilityConfig], name: str) -> "PriorityUpdate | None":
        """The update that an earlier stage passed on to group `name`. See `tensors`."""
        if not context.config.priority:
            return None
        return cls(context.tensors[f"updated_indices/{name}"], context.tensors[f"updated_priorities/{name}"])

    def tensors(self, name: str) -> dict[str, Array]:
        """The tensors that pass the update on to later stages."""
        return {f"updated_indices/{name}": self.indices, f"updated_priorities/{name}": self.priorities}

    def apply(self, context: Context[UtilityConfig], name: str) -> dict[str, Array]:
        """The tensors of group `name` after the update. For a segment drawn twice the last priority counts."""
        priorities = Priorities.load(context, name)
        values = priorities.values.copy()
        values[self.indices] = self.priorities
        return priorities._replace(values=values).tensors(name)
