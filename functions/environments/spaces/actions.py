"""Actions of one space, between the environment's own form and the numbers of networks.

A network makes one choice (from `discrete`, and from the only component of the others) or several (`branches`, from
`multi_discrete` and `multi_binary`). Or it gives numbers within bounds (from `box`). Several choices can also be
numbered as one, `joined`, the last choice changing fastest.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .observations import Array, NoAction, Space, SpaceError, bound, finite_numbers, full_array, shape_of, whole_numbers


class ActionCodec:
    """The actions of one space: networks count choices from 0, one choice ``[...]`` or several ``[..., branches]``, and
    have numbers as ``[..., d]``."""

    def __init__(self, space: Space, joint: bool = False) -> None:
        """`joint` numbers the combinations of several choices as one choice."""
        kind = space["type"]
        self.shape: tuple[int, ...] = () if kind == "discrete" else tuple(space["shape"])
        self.dtype = np.dtype("int64" if kind == "discrete" else space.get("dtype", "int8"))
        # Of numbers: their bounds. Of choices: how many actions each has, flat.
        self.low: tuple[float, ...] = ()
        self.high: tuple[float, ...] = ()
        self.counts: tuple[int, ...] = ()
        self.start = np.zeros(self.shape, np.int64)
        if kind == "box":
            self._bounds = tuple(bound(space[key], math.nan, self.shape, self.dtype) for key in ("low", "high"))
            self.low, self.high = (tuple(array.reshape(-1).tolist()) for array in self._bounds)
        else:
            counts = {"discrete": (space.get("n"),), "multi_binary": (2,)}.get(kind) or space["counts"]
            self.counts = tuple(full_array(counts, self.shape, np.int64).reshape(-1).tolist())
            self.start = full_array(np.atleast_1d(space.get("start", 0)), self.shape, np.int64)
        several = len(self.counts) > 1
        # The counts of several choices, which are made one by one, or numbered as one.
        self.branches = self.counts if several and not joint else ()
        self.joined = self.counts if several and joint else ()
        self.actions = len(self.low) or (math.prod(self.joined) if self.joined else sum(self.counts))
        self.mask_size = sum(self.counts)
        ends = np.cumsum(self.counts).tolist()
        # The columns of each choice in the environment's mask.
        self.choices = tuple(slice(end - count, end) for end, count in zip(ends, self.counts, strict=True))
        # The environment's mask that allows the first action only, of every choice: of agents that wait for their turn.
        self.first = np.isin(np.arange(self.mask_size), [part.start for part in self.choices])

    @property
    def continuous(self) -> bool:
        """Return True if actions are numbers."""
        return bool(self.low)

    def decode(self, numbers: Array) -> Array:
        """The environment's actions ``[..., *shape]`` for a network's."""
        if self.continuous:
            return self.cast(numbers.reshape((*numbers.shape[:-1], *self.shape)))
        lead = numbers.shape[:-1] if self.branches else numbers.shape
        if self.joined:
            numbers = np.stack(np.unravel_index(numbers, self.joined), axis=-1)
        return self.cast(numbers.reshape((*lead, *self.shape)) + self.start)

    def cast(self, actions: Array) -> Array:
        """Actions ``[..., *shape]`` in the space's type of numbers, and within its bounds."""
        numbers = actions.astype(self.dtype)
        # Actions at a bound may exceed it by a rounding error, and some environments check.
        return np.clip(numbers, *self._bounds) if self.continuous else numbers

    def native(self, numbers: Array) -> Sequence[Any] | Array:
        """Decode, with lists of Python numbers for one choice: environments calculate faster with them."""
        if self.shape or self.continuous:
            return self.decode(numbers)
        start = int(self.start)
        values: Sequence[Any] = (numbers + start if start else numbers).tolist()
        return values

    def encode(self, actions: Any, batch: tuple[int, ...], label: str) -> Array:
        """A network's actions for the environment's ``[*batch, *shape]``, the inverse of `decode`. Numbers may be out
        of bounds. Raises `SpaceError`."""
        whole = (*batch, *self.shape)
        if self.continuous:
            return finite_numbers(actions, whole, label).reshape((*batch, -1))
        numbers = whole_numbers(actions, whole, self.start, np.reshape(self.counts, self.shape), label)
        if self.branches:
            return numbers.reshape((*batch, -1))
        if self.joined:
            flat = np.moveaxis(numbers.reshape((*batch, -1)), -1, 0)
            return np.asarray(np.ravel_multi_index(tuple(flat), self.joined))
        return numbers.reshape(batch)

    def legal(self, mask: Array) -> Array | None:
        """A network's mask ``[..., actions]`` for the environment's ``[..., mask_size]``, or None if all actions of a
        choice are illegal."""
        parts = [mask[..., columns] for columns in self.choices]
        if not all(part.any(axis=-1).all() for part in parts):
            return None
        if not self.joined:
            return mask
        legal = parts[0]
        for part in parts[1:]:
            legal = (legal[..., :, None] & part[..., None, :]).reshape((*mask.shape[:-1], -1))
        return legal

    def mask_of(self, legal: Array) -> Array:
        """The environment's mask ``[..., mask_size]`` for a network's, the other way round of `legal`."""
        if not self.joined:
            return legal
        lead = legal.ndim - 1
        table = legal.reshape((*legal.shape[:-1], *self.joined))
        axes = range(lead, table.ndim)
        return np.concatenate([table.any(axis=tuple(a for a in axes if a != axis)) for axis in axes], axis=-1)

    def read_mask(self, mask: object, batch: tuple[int, ...], label: str) -> Array:
        """A network's mask ``[*batch, actions]`` for the environment's, one for all or one for each of a batch. Raises
        `SpaceError`."""
        whole = (*batch, self.mask_size)
        one_for_all = len(shape_of(mask)) == 1
        flat = finite_numbers(mask, whole[-1:] if one_for_all else whole, label)
        if (flat < 0).any():
            raise SpaceError(f"{label} holds {flat.min():g}; it is 1 where an action is legal and 0 elsewhere")
        if (legal := self.legal(np.broadcast_to(flat != 0, whole))) is None:
            raise NoAction(f"{label} allows no action")
        return legal
