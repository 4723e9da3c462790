"""Spaces of agents in messages and policy files. `observations` and `actions` read them as dictionaries.

Bounds, counts and starts are one for all or one for each.
"""

import math
from typing import Any, Literal

import msgspec

# Limits of the space of one agent: anything larger would be a program instead of a description.
DEEPEST, MOST_PARTS, MOST_AXES = 32, 10_000, 32

NumberType = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
]


class _Space(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """The base of all spaces."""


class BoxSpace(_Space, frozen=True, tag="box"):
    """Numbers. A bound of None is infinite."""

    shape: tuple[int, ...]
    dtype: NumberType
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


class DiscreteSpace(_Space, frozen=True, tag="discrete"):
    """One of `n` choices from `start`."""

    n: int
    start: int


class MultiDiscreteSpace(_Space, frozen=True, tag="multi_discrete"):
    """Several choices, each one of its count from its start."""

    shape: tuple[int, ...]
    dtype: NumberType
    counts: tuple[int, ...]
    start: tuple[int, ...]


class MultiBinarySpace(_Space, frozen=True, tag="multi_binary"):
    """Numbers that are 0 or 1."""

    shape: tuple[int, ...]


class DictSpace(_Space, frozen=True, tag="dict"):
    """Parts by key. Keys of other types than texts and whole numbers are their texts here."""

    keys: tuple[str | int, ...]
    spaces: tuple["Space", ...]


class TupleSpace(_Space, frozen=True, tag="tuple"):
    """Parts in order."""

    spaces: tuple["Space", ...]


class VectorSpace(_Space, frozen=True, tag="vector"):
    """So many numbers, flat or in this shape, for tasks with observations that are network inputs."""

    shape: tuple[int, ...]


Space = BoxSpace | DiscreteSpace | MultiDiscreteSpace | MultiBinarySpace | DictSpace | TupleSpace | VectorSpace


class AgentSpaces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The environment's own spaces of a class of agents. `masked`: observations are ``{"observation": ...,
    "action_mask": ...}``. `joint`: several choices are numbered as one."""

    observation: Space
    action: Space
    masked: bool = False
    joint: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        builtins: dict[str, Any] = msgspec.to_builtins(self)
        return builtins


def require_sound(spaces: AgentSpaces) -> None:
    """Raises `ValueError` for spaces that no environment has: too deep, with negative sizes, or keys that are equal."""
    parts = _parts(spaces.observation)
    for space in (*parts, spaces.action):
        _require_sound(space)
    if isinstance(spaces.action, DictSpace | TupleSpace | VectorSpace):
        raise ValueError("a space of actions is nested")


def observed_size(space: Space) -> int:
    """The numbers that a network takes of an observation."""
    return sum(map(_size, _parts(space)))


def _parts(space: Space) -> list[Space]:
    """The space, or all spaces in it. Raises `ValueError` for more or deeper ones than allowed."""
    level, parts = [space], list[Space]()
    for _ in range(DEEPEST):
        parts += level
        level = [
            part for container in level if isinstance(container, DictSpace | TupleSpace) for part in container.spaces
        ]
        if not level:
            return parts
        if len(parts) + len(level) > MOST_PARTS:
            raise ValueError(f"a space has more than {MOST_PARTS:,} parts")
    raise ValueError(f"a space is nested more than {DEEPEST} deep")


def _size(space: Space) -> int:
    """The numbers of a space, without the spaces in it."""
    if isinstance(space, DiscreteSpace):
        return space.n
    if isinstance(space, DictSpace | TupleSpace):
        return 0
    if isinstance(space, MultiDiscreteSpace):
        return space.counts[0] * math.prod(space.shape) if len(space.counts) == 1 else sum(space.counts)
    return math.prod(space.shape)


def _require_sound(space: Space) -> None:
    if isinstance(space, DiscreteSpace):
        right = space.n > 0
    elif isinstance(space, DictSpace):
        right = len({*space.keys}) == len(space.keys) == len(space.spaces)
    elif isinstance(space, TupleSpace):
        right = True
    else:
        right = len(space.shape) <= MOST_AXES and all(length >= 0 for length in space.shape)
        fitting = {1, math.prod(space.shape)}
        if isinstance(space, BoxSpace):
            right &= {len(space.low), len(space.high)} <= fitting
        if isinstance(space, MultiDiscreteSpace):
            right &= {len(space.counts), len(space.start)} <= fitting and all(count > 0 for count in space.counts)
    if not right:
        raise ValueError(f"a {type(space).__name__} contradicts itself")
