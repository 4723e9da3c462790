"""Gymnasium action spaces as one choice, several choices or continuous actions.

`Discrete` is one choice, `MultiDiscrete` and `MultiBinary` are several (one if they have a single component), and a
`Box` of floating-point numbers with finite bounds is continuous actions. Several choices can also be numbered as one,
see `action_decoder`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from functions.environments.base import ActionArray, AgentClass, BoolArray, Unsupported
from functions.environments.pettingzoo.guard import one_line

JOINT_LIMIT = 1024
_SUPPORTED = "Discrete, MultiDiscrete, MultiBinary and Box of floating-point numbers with finite bounds"

_Native = Callable[[ActionArray], Sequence[Any] | ActionArray]


@dataclass(frozen=True)
class ActionDecoder:
    """The actions of one space; fields without a comment are those of `AgentClass`."""

    # Converts ``[E, n]``, ``[E, n, branches]`` or ``[E, n, actions]`` to the environment's actions: E lists of n Python
    # numbers for one choice, which environments calculate with faster than with numpy's, else a new ``[E, n, ...]``.
    native: _Native
    actions: int
    first_action: int = 0
    branches: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    # The counts of several choices that are numbered as one.
    joined: tuple[int, ...] = ()

    @cached_property
    def mask_size(self) -> int:
        """The length of the environment's mask: one entry per action, choice after choice."""
        return sum(self.joined) or self.actions

    @cached_property
    def choices(self) -> tuple[slice, ...]:
        """The columns of each choice in the environment's mask."""
        counts = self.joined or self.branches or (self.actions,)
        return tuple(slice(sum(counts[:i]), sum(counts[: i + 1])) for i in range(len(counts)))

    def legal(self, mask: BoolArray) -> BoolArray | None:
        """Our mask ``[actions]`` for the environment's ``[mask_size]``; None if a choice has no legal action."""
        parts = [mask[columns] for columns in self.choices]
        if not all(part.any() for part in parts):
            return None
        if not self.joined:
            return mask
        legal = parts[0]
        for part in parts[1:]:
            legal = np.logical_and.outer(legal, part).reshape(-1)
        return legal

    def as_class(
        self, name: str, agents: tuple[int, ...], observation_size: int, observation_shape: tuple[int, ...] = ()
    ) -> AgentClass:
        """The class of `agents` with this action space."""
        return AgentClass(
            name=name,
            agents=agents,
            observation_size=observation_size,
            actions=self.actions,
            first_action=self.first_action,
            branches=self.branches,
            low=self.low,
            high=self.high,
            observation_shape=observation_shape,
        )


def action_decoder(who: str, space: Any, joint: bool) -> ActionDecoder:
    """The decoder of `space`, the action space of `who`; raises `Unsupported` for spaces of other kinds.

    `joint` numbers the combinations of several choices as one choice, the last choice changing fastest; raises
    `ValueError` for more than `JOINT_LIMIT` combinations.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return ActionDecoder(_counted_from(first), int(space.n), first)
    if isinstance(space, spaces.MultiDiscrete):
        return _choices(who, space, [int(count) for count in space.nvec.reshape(-1)], space.start, joint)
    if isinstance(space, spaces.MultiBinary):
        return _choices(who, space, [2] * math.prod(space.shape), np.zeros(space.shape), joint)
    if isinstance(space, spaces.Box) and _is_bounded(space):
        return _numbers(space)
    raise Unsupported(f"{who} acts in {one_line(space)}; supported are {_SUPPORTED}")


def _counted_from(first: int) -> _Native:
    if not first:
        return np.ndarray.tolist
    return lambda chosen: (chosen + first).tolist()


def _is_bounded(space: Any) -> bool:
    finite = np.isfinite(space.low).all() and np.isfinite(space.high).all()
    return bool(np.issubdtype(space.dtype, np.floating) and finite and space.low.size)


def _numbers(space: Any) -> ActionDecoder:
    low, high, shape = space.low, space.high, space.shape

    def native(numbers: ActionArray) -> ActionArray:
        # Actions at a bound may exceed it by a rounding error, and some environments check.
        within: ActionArray = np.clip(numbers.reshape(*numbers.shape[:2], *shape).astype(space.dtype), low, high)
        return within

    return ActionDecoder(native, low.size, low=tuple(low.reshape(-1).tolist()), high=tuple(high.reshape(-1).tolist()))


def _choices(who: str, space: Any, counts: list[int], start: Any, joint: bool) -> ActionDecoder:
    if not counts:
        raise Unsupported(f"{who} acts in {one_line(space)}, which has no action")

    def native(chosen: ActionArray) -> ActionArray:
        numbered: ActionArray = (chosen.reshape(*chosen.shape[:2], *space.shape) + start).astype(space.dtype)
        return numbered

    if len(counts) == 1:
        return ActionDecoder(native, counts[0], int(np.reshape(start, -1)[0]))
    if not joint:
        return ActionDecoder(native, sum(counts), branches=tuple(counts))
    combinations = math.prod(counts)
    if combinations > JOINT_LIMIT:
        raise ValueError(
            f"{who} has {combinations:,} combinations of actions; task.options.joint_actions numbers at most "
            f"{JOINT_LIMIT:,}"
        )

    def unjoined(number: ActionArray) -> ActionArray:
        return native(np.stack(np.unravel_index(number, counts), axis=-1))

    return ActionDecoder(unjoined, combinations, joined=tuple(counts))
