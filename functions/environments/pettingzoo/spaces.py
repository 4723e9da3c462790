"""Converts Gymnasium's spaces to descriptions (`marless.functions.environments.spaces`), and back.

Observations are numbers (`Box`, `MultiBinary`), choices (`Discrete`, `MultiDiscrete`), and `Dict` or `Tuple` of these.
Actions are `Discrete` (one choice), `MultiDiscrete` and `MultiBinary` (several, or one for a single component), or a
`Box` of floating-point numbers. Its bounds must be finite in float32, the precision of networks.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from marless.functions.environments.base import Unsupported
from marless.functions.environments.pettingzoo.guard import one_line
from marless.functions.environments.spaces.observations import bound, full_array
from marless.functions.environments.spaces.space_types import (
    BoxSpace,
    DictSpace,
    DiscreteSpace,
    MultiBinarySpace,
    MultiDiscreteSpace,
    Space,
    TupleSpace,
    VectorSpace,
    observed_size,
)
from marless.functions.setting_limits import LARGEST_FLOAT32

JOINT_LIMIT = 1024
_SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these"
_SUPPORTED_ACTIONS = (
    "Discrete, MultiDiscrete, MultiBinary and Box of floating-point numbers with bounds that are finite in float32"
)
# The most bounds of an observation in messages. More are replaced by the widest, because nothing is computed with them.
_MOST_BOUNDS = 256


class _UnsupportedSpace(Exception):
    """A space of another kind, or one that contains such a space."""


def observation_space_of(label: str, space: Any) -> Space:
    """The space that `label` observes. Raises `Unsupported` for spaces of other kinds and for empty ones."""
    try:
        description = _describe(space)
        size = observed_size(description)
    except _UnsupportedSpace:
        raise Unsupported(f"{label} observes {_text_of(space)}; supported are {_SUPPORTED}") from None
    except ValueError as error:
        raise Unsupported(f"{label} observes {one_line(space)}: {error}") from error
    if not size:
        raise Unsupported(f"{label} observes nothing: {one_line(space)}")
    return description


def _text_of(space: Any) -> str:
    """A space in one line, with its class where that looks like one of Gymnasium's and is none."""
    from gymnasium import spaces

    kind = type(space)
    is_other = hasattr(spaces, kind.__name__) and not isinstance(space, spaces.Space)
    return (
        f"{one_line(space)}, a {kind.__module__}.{kind.__name__} and none of Gymnasium" if is_other else one_line(space)
    )


def action_space_of(label: str, space: Any, joint: bool) -> Space:
    """The space that `label` acts in. Raises `Unsupported` for spaces of other kinds.

    `joint` is whether several choices are numbered as one. Raises `ValueError` for more than `JOINT_LIMIT`
    combinations.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Box) and _is_bounded(space):
        return _box(space, most_bounds=space.low.size)
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise Unsupported(f"{label} acts in {_text_of(space)}; supported are {_SUPPORTED_ACTIONS}")
    if 0 in (space.shape or ()):
        raise Unsupported(f"{label} acts in {one_line(space)}, which has no action")
    if joint and isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        counts = space.nvec if isinstance(space, spaces.MultiDiscrete) else np.full(space.shape, 2)
        _require_few(label, counts.reshape(-1).tolist())
    return _describe(space)


def _require_few(label: str, counts: list[int]) -> None:
    combinations = math.prod(counts)
    if len(counts) > 1 and combinations > JOINT_LIMIT:
        raise ValueError(
            f"{label} has {combinations:,} combinations of actions; task.options.joint_actions numbers at most "
            f"{JOINT_LIMIT:,}"
        )


def gymnasium_space(space: Space) -> Any:
    """The Gymnasium space of a description."""
    from gymnasium import spaces

    return _GYMNASIUM_SPACES[type(space)](spaces, space)


def image_or_numbers(shape: tuple[int, ...], space: Any) -> Space:
    """Arrays of `shape`, which are images if `space` is one of images."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box) and space.dtype == np.uint8:
        box = _box(space, most_bounds=1)
        return BoxSpace(shape, "uint8", box.low, box.high)
    return BoxSpace(shape, "float32", (None,), (None,))


def _is_bounded(space: Any) -> bool:
    finite = (np.abs(np.array([space.low, space.high], np.float64)) <= LARGEST_FLOAT32).all()
    return bool(np.issubdtype(space.dtype, np.floating) and finite and space.low.size)


def _describe(space: Any) -> Space:
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return _box(space)
    if isinstance(space, spaces.MultiBinary):
        return MultiBinarySpace(_int_shape(space.shape))
    if isinstance(space, spaces.Discrete):
        return DiscreteSpace(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        counts, start = (_compress(array) for array in (space.nvec, space.start))
        return MultiDiscreteSpace(_int_shape(space.shape), str(space.dtype), counts, start)  # type: ignore[arg-type]
    if isinstance(space, spaces.Dict):
        return DictSpace(tuple(map(_key, space.spaces)), tuple(map(_describe, space.spaces.values())))
    if isinstance(space, spaces.Tuple):
        return TupleSpace(tuple(map(_describe, space.spaces)))
    raise _UnsupportedSpace


def _box(space: Any, most_bounds: int = _MOST_BOUNDS) -> BoxSpace:
    low, high = (_compress(array) for array in (space.low, space.high))
    if max(len(low), len(high)) > most_bounds:
        low, high = (float(space.low.min()),), (float(space.high.max()),)
    bounds = (tuple(float(value) if math.isfinite(value) else None for value in bound) for bound in (low, high))
    return BoxSpace(_int_shape(space.shape), str(space.dtype), *bounds)  # type: ignore[arg-type]


def _compress(array: Any) -> tuple[Any, ...]:
    values = array.reshape(-1).tolist()
    return tuple(values[:1] if all(value == values[0] for value in values) else values)


def _int_shape(shape: Any) -> tuple[int, ...]:
    return tuple(map(int, shape))


def _key(key: Any) -> str | int:
    """A key of a `Dict` space, for look-ups of observations. Keys of other types become their text."""
    if isinstance(key, str):
        return str(key)
    try:
        return operator.index(key)
    except TypeError:
        return str(key)


def _as_box(spaces: Any, space: BoxSpace) -> Any:
    dtype = np.dtype(space.dtype)
    low, high = (
        bound(_within_type(ends, dtype), none, space.shape, dtype)
        for ends, none in ((space.low, -math.inf), (space.high, math.inf))
    )
    return spaces.Box(low, high, space.shape, dtype)


def _within_type(ends: tuple[float | None, ...], dtype: np.dtype[Any]) -> tuple[float | None, ...]:
    """Bounds of integers as integers: the widest, as floating-point numbers, are outside of their type."""
    if dtype.kind not in "iu":
        return ends
    widest = np.iinfo(dtype)
    return tuple(None if end is None else min(max(int(end), int(widest.min)), int(widest.max)) for end in ends)


def _as_multi_discrete(spaces: Any, space: MultiDiscreteSpace) -> Any:
    counts, start = (full_array(values, space.shape, np.int64) for values in (space.counts, space.start))
    return spaces.MultiDiscrete(counts, np.dtype(space.dtype), start=start)


_GYMNASIUM_SPACES: dict[type, Callable[[Any, Any], Any]] = {
    BoxSpace: _as_box,
    DiscreteSpace: lambda spaces, space: spaces.Discrete(space.n, start=space.start),
    MultiDiscreteSpace: _as_multi_discrete,
    MultiBinarySpace: lambda spaces, space: spaces.MultiBinary(
        space.shape if len(space.shape) != 1 else space.shape[0]
    ),
    DictSpace: lambda spaces, space: spaces.Dict(
        [(key, gymnasium_space(part)) for key, part in zip(space.keys, space.spaces, strict=True)]
    ),
    TupleSpace: lambda spaces, space: spaces.Tuple([gymnasium_space(part) for part in space.spaces]),
    VectorSpace: lambda spaces, space: spaces.Box(-np.inf, np.inf, space.shape, np.float32),
}
