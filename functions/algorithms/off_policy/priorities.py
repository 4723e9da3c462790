"""How often each segment of the replay buffer is drawn: prioritised replay as a part of the learner's state.

Schaul et al., "Prioritized Experience Replay", ICLR 2016, the proportional variant; its formulas are in
`functions.algorithms.off_policy.prioritised`. A stretch's error is the mean of |TD error| over the rows of it that are
learned from, as there one transition's is |TD error|. That mean is ours: R2D2 (Kapturowski et al., "Recurrent
Experience Replay in Distributed Reinforcement Learning", ICLR 2019) mixes it with the maximum, by one more setting.

Every group keeps priorities of its own, which are equal for all groups of a side that learns together. So a stage is
shown no other group's state. They are written where the policy is, after all stages of the update have drawn.
"""

from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.advantages import Flags
from functions.algorithms.base import Context
from functions.algorithms.off_policy import prioritised
from functions.algorithms.off_policy.prioritised import Floats, Places
from functions.algorithms.off_policy.replay import M, MinibatchConfig, drawn, remembered
from functions.nn.mlp import Array
from functions.randomness import generator

PART = "priorities"
# What a stretch without error counts as, so that it can be drawn again; as in OpenAI's baselines.
_EPSILON = 1e-6


class PriorityConfig(MinibatchConfig, Protocol):
    """The settings of prioritised replay, see `UtilityConfig`."""

    @property
    def priority(self) -> float: ...

    def beta(self, env_steps: int) -> float: ...


class Priorities(NamedTuple):
    """Of the stretches of some units: `units` ``[U, 2]`` are rounds and numbers in these, `values` ``[U * P]`` are
    those of their P stretches each, to the power of alpha, in single precision. `steps` counts the environment steps
    of all units there ever were."""

    units: Places
    values: NDArray[np.float32]
    steps: int

    @classmethod
    def load(cls, context: Context[PriorityConfig], name: str) -> Self:
        """Those of group `name`, as they are for the context's replay buffer."""
        replay_buffer, length = remembered(context)
        units, values, steps = (context.tensors[f"{PART}/{name}/{field}"] for field in cls._fields)
        pieces = replay_buffer.segments_per_rollout(length)
        return cls(units, values, int(steps[0])).aligned(replay_buffer.rollouts, pieces, pieces * length)

    def aligned(self, units: Places, pieces: int, unit_steps: int) -> Self:
        """Those of `units`: as they were, and for new units the greatest there was, 1 where there was none."""
        if np.array_equal(units, self.units):
            return self
        home = {unit: place for place, unit in enumerate(map(tuple, self.units.tolist()))}
        found = np.array([home.get(unit, -1) for unit in map(tuple, units.tolist())], np.int64)
        known = found >= 0
        values = np.full((len(units), pieces), self.values.max(initial=0) or 1, np.float32)
        values[known] = self.values.reshape(-1, pieces)[found[known]]
        return type(self)(units, values.ravel(), self.steps + unit_steps * int((~known).sum()))

    def drawable(self) -> Floats:
        """The priorities ``[U * P]``; all alike where nothing could be drawn."""
        return self.values.astype(np.float64) if self.values.any() else np.ones(len(self.values))

    def tensors(self, name: str) -> dict[str, Array]:
        """By name."""
        made: dict[str, Array] = {"units": self.units, "values": self.values, "steps": np.array([self.steps], np.int64)}
        return {f"{PART}/{name}/{field}": array for field, array in made.items()}


def initial(config: PriorityConfig, name: str) -> dict[str, Array]:
    """The tensors of group `name` at round 0: no unit is known. None where draws are uniform."""
    if not config.priority:
        return {}
    return Priorities(np.zeros((0, 2), np.int64), np.zeros(0, np.float32), 0).tensors(name)


class Draw(NamedTuple):
    """An update's minibatch: the numbers of its stretches and their importance weights, both ``[B]``; None where it is
    drawn uniformly."""

    places: Places | None = None
    weights: Floats | None = None

    @classmethod
    def of(cls, context: Context[PriorityConfig], name: str) -> Self:
        """That of group `name`, at the address (seed, round, "replay", update)."""
        config = context.config
        if not config.priority:
            return cls()
        known = Priorities.load(context, name)
        uniforms = generator(context.seed, context.round, "replay", context.update).random(config.batch_size)
        values = known.drawable()
        places = prioritised.draw(values, uniforms)
        return cls(places, prioritised.weights(values, places, config.beta(known.steps)))

    @classmethod
    def told(cls, context: Context[PriorityConfig], name: str) -> Self:
        """That which an earlier stage of group `name` told; see `tensors`."""
        if not context.config.priority:
            return cls()
        return cls(context.tensors[f"drawn/{name}"], context.tensors[f"importance/{name}"])

    def tensors(self, name: str) -> dict[str, Array]:
        """What tells later stages of the update."""
        if self.places is None or self.weights is None:
            return {}
        return {f"drawn/{name}": self.places, f"importance/{name}": self.weights}

    def shown(self, context: Context[M]) -> Context[M]:
        """The context with the minibatch as its data."""
        return drawn(context, self.places)

    def weighing(self, values: Array) -> Array | None:
        """The importance weights of rows ``[..., T, B]``, as `td_loss` takes them."""
        return None if self.weights is None else np.broadcast_to(self.weights.astype(values.dtype), values.shape)


class Judged(NamedTuple):
    """What an update found of its minibatch: the numbers of the stretches, and their new priorities, both ``[B]``."""

    places: Places
    worth: Floats

    @classmethod
    def by(cls, draw: Draw, config: PriorityConfig, difference: Array, learned: Flags) -> "Judged | None":
        """From value minus target ``[..., T, B]``, 0 where a row is not `learned` from; None for uniform draws.

        A stretch without a row to learn from is not drawn again.
        """
        if draw.places is None:
            return None
        axes = tuple(range(learned.ndim - 1))
        rows = learned.sum(axis=axes)
        errors = np.abs(difference).sum(axis=axes) / np.maximum(rows, 1)
        worth = np.where(rows > 0, prioritised.priorities(errors, config.priority, _EPSILON), 0.0)
        return cls(draw.places, worth)

    @classmethod
    def told(cls, context: Context[PriorityConfig], name: str) -> "Judged | None":
        """What an earlier stage of the update told group `name`; see `tensors`."""
        if not context.config.priority:
            return None
        return cls(context.tensors[f"places/{name}"], context.tensors[f"worth/{name}"])

    def tensors(self, name: str) -> dict[str, Array]:
        """What tells later stages of the update."""
        return {f"places/{name}": self.places, f"worth/{name}": self.worth}

    def written(self, context: Context[PriorityConfig], name: str) -> dict[str, Array]:
        """The tensors of group `name` after the update; a stretch drawn twice is judged by the last of these."""
        known = Priorities.load(context, name)
        values = known.values.copy()
        values[self.places] = self.worth
        return known._replace(values=values).tensors(name)
