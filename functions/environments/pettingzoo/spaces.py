"""Gymnasium observation spaces as one flat vector of float32.

Numbers (`Box`, `MultiBinary`) are flattened, choices (`Discrete`, `MultiDiscrete`) become one-hots, and nested spaces
(`Dict`, `Tuple`) are concatenated, all in the order of `gymnasium.spaces.utils.flatten`; but the only image or table
among them comes first. Images, which are boxes of uint8 from 0 to 255, are scaled to 0..1. That function is not called,
because it does not check its input: it takes a choice of -1 for the last one and accepts wrong shapes and values that
are not finite.
"""

import math
import operator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from functions.environments.base import FloatArray, Unsupported
from functions.environments.pettingzoo.guard import Guard, one_line

_SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these"
_OUTSIDE = "{what} is {seen}, which is outside its space"
_BRIGHTEST = np.float32(255)
_SINGLE = np.dtype(np.float32)
# Numbers whose squares add up to less than this do not overflow as float32.
_LARGEST = 1e76


class ObservationEncoder(Protocol):
    """Observations of one space as vectors of `size` numbers."""

    @property
    def size(self) -> int: ...

    @property
    def layout(self) -> tuple[int, ...]:
        """The shape ``[H, W, C]`` of an image, or that of another array of two axes or more, which are the first
        numbers of the vector; () for anything else."""

    @property
    def finite(self) -> bool:
        """Whether nothing that `write_quickly` writes can be other than finite."""

    def write(self, guard: Guard, method: str, seen: Any, what: str, out: FloatArray) -> None:
        """Writes `seen` into `out` ``[size]``; raises a fault of `method` that names `what` and the error."""

    def write_quickly(self, seen: Any, out: FloatArray, at: Any) -> None:
        """Writes `seen` into ``out[at]``, zeros ``[size]``, as `write` does, but for two things: it raises any error
        for what it does not know to be right, and does not look for numbers that are not finite."""


def observation_encoder(who: str, space: Any) -> ObservationEncoder:
    """The encoder of `space`, observed by `who`; raises `Unsupported` for other spaces and for empty ones."""
    encoder = _encoder(space)
    if encoder is None:
        raise Unsupported(f"{who} observes {one_line(space)}; supported are {_SUPPORTED}")
    if not encoder.size:
        raise Unsupported(f"{who} observes nothing: {one_line(space)}")
    return encoder


def numbers(shape: tuple[int, ...], space: Any = None) -> ObservationEncoder:
    """The encoder of arrays of `shape`, which are images if `space` is one of images."""
    return _Numbers(shape, _is_image(space))


def _encoder(space: Any) -> ObservationEncoder | None:
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return _Numbers(space.shape, _is_image(space))
    if isinstance(space, spaces.MultiBinary):
        return _Numbers(space.shape, False)
    if isinstance(space, spaces.Discrete):
        return _Choice(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return _Choices(space.shape, space.nvec.reshape(-1), space.start.reshape(-1))
    if isinstance(space, spaces.Dict):
        return _nested(dict(space.spaces), named=True)
    if isinstance(space, spaces.Tuple):
        return _nested(dict(enumerate(space.spaces)), named=False)
    return None


def _is_image(space: Any) -> bool:
    from gymnasium import spaces

    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return False
    return bool((space.low == 0).all() and (space.high == 255).all())


@dataclass(frozen=True)
class _Numbers:
    """An array of `shape`, flattened."""

    shape: tuple[int, ...]
    image: bool

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def layout(self) -> tuple[int, ...]:
        if self.image and len(self.shape) == 2:
            return (*self.shape, 1)
        return self.shape if len(self.shape) > 1 else ()

    def write(self, guard: Guard, method: str, seen: Any, what: str, out: FloatArray) -> None:
        flat = guard.numbers(method, seen, self.shape, what)
        if self.image:
            np.divide(flat, _BRIGHTEST, out=out)
        else:
            out[:] = flat

    @property
    def finite(self) -> bool:
        return self.image

    def write_quickly(self, seen: Any, out: FloatArray, at: Any) -> None:
        if isinstance(seen, list):
            seen = np.array(seen)
        if seen.shape != self.shape:
            raise ValueError
        if seen.dtype is not _SINGLE:
            if self.image and seen.dtype == np.uint8:
                np.divide(seen.reshape(-1), _BRIGHTEST, out=out[at])
                return
            _require_small(seen)
        if self.image:
            raise ValueError
        out[at] = seen if len(self.shape) == 1 else seen.reshape(-1)


def is_finite(numbers: NDArray[Any]) -> bool:
    """False if one is not finite, or their squares add up to infinity; a fifth of the time of `numpy.isfinite`."""
    return math.isfinite(np.vdot(numbers, numbers))


def _require_small(numbers: NDArray[Any]) -> None:
    """Raises an error for kinds of numbers that may overflow as float32, without numpy's warning about it."""
    kind = numbers.dtype.kind
    if kind not in "biu" and not (kind == "f" and np.vdot(numbers, numbers) < _LARGEST):
        raise ValueError


@dataclass(frozen=True)
class _Choice:
    """One of `size` choices, counted from `first`, as a one-hot."""

    size: int
    first: int
    layout: tuple[int, ...] = ()

    def write(self, guard: Guard, method: str, seen: Any, what: str, out: FloatArray) -> None:
        number = guard.number(method, seen, what) - self.first
        if not (0 <= number < self.size and number.is_integer()):
            raise guard.fault(method, _OUTSIDE.format(what=what, seen=one_line(seen)))
        out[:] = 0
        out[int(number)] = 1

    @property
    def finite(self) -> bool:
        return True

    def write_quickly(self, seen: Any, out: FloatArray, at: Any) -> None:
        number = operator.index(seen) - self.first
        if not 0 <= number < self.size:
            raise ValueError
        out[at][number] = 1


class _Choices:
    """An array of `shape` of choices, each a one-hot of length `counts[i]`; choice i counts from `first[i]`."""

    layout: tuple[int, ...] = ()

    def __init__(self, shape: tuple[int, ...], counts: NDArray[Any], first: NDArray[Any]) -> None:
        self._shape = shape
        self._counts = counts.astype(np.int64)
        self._first = first
        self._offsets = np.cumsum(self._counts) - self._counts

    @property
    def size(self) -> int:
        return int(self._counts.sum())

    def write(self, guard: Guard, method: str, seen: Any, what: str, out: FloatArray) -> None:
        numbers = guard.numbers(method, seen, self._shape, what, np.float64) - self._first
        chosen = numbers.astype(np.int64)
        if ((chosen < 0) | (chosen >= self._counts) | (chosen != numbers)).any():
            raise guard.fault(method, _OUTSIDE.format(what=what, seen=one_line(seen)))
        out[:] = 0
        out[self._offsets + chosen] = 1

    @property
    def finite(self) -> bool:
        return True

    def write_quickly(self, seen: Any, out: FloatArray, at: Any) -> None:
        if seen.shape != self._shape or seen.dtype.kind not in "iu":
            raise ValueError
        chosen = seen.reshape(-1) - self._first
        if ((chosen < 0) | (chosen >= self._counts)).any():
            raise ValueError
        out[at][self._offsets + chosen] = 1


@dataclass(frozen=True)
class _Nested:
    """Concatenated observations: key, name in errors, encoder and columns of each; `named`: in a dictionary."""

    parts: tuple[tuple[Any, str, ObservationEncoder, slice], ...]
    size: int
    named: bool
    layout: tuple[int, ...] = ()

    def write(self, guard: Guard, method: str, seen: Any, what: str, out: FloatArray) -> None:
        """See `ObservationEncoder`."""
        if self.named:
            whole = isinstance(seen, dict) and all(key in seen for key, *_ in self.parts)
        else:
            whole = isinstance(seen, tuple | list | np.ndarray) and len(seen) == len(self.parts)
        if not whole:
            keys = [key for key, *_ in self.parts]
            wanted = f"a dictionary with {keys}" if self.named else f"a tuple of {len(keys)}"
            raise guard.fault(method, f"{what} is not {wanted}")
        for key, where, part, columns in self.parts:
            part.write(guard, method, seen[key], what + where, out[columns])

    @property
    def finite(self) -> bool:
        return all(part.finite for _, _, part, _ in self.parts)

    def write_quickly(self, seen: Any, out: FloatArray, at: Any) -> None:
        if self.named:
            right = isinstance(seen, dict)
        else:
            right = isinstance(seen, tuple | list) and len(seen) == len(self.parts)
        if not right:
            raise ValueError
        own = out[at]
        for key, _, part, columns in self.parts:
            part.write_quickly(seen[key], own, columns)


def _nested(spaces: dict[Any, Any], named: bool) -> ObservationEncoder | None:
    encoders = {key: _encoder(space) for key, space in spaces.items()}
    shaped = [key for key, encoder in encoders.items() if encoder is not None and encoder.layout]
    first = shaped if len(shaped) == 1 else []
    parts, size = [], 0
    for key in (*first, *(key for key in encoders if key not in first)):
        part = encoders[key]
        if part is None:
            return None
        parts.append((key, f"[{key!r}]", part, slice(size, size + part.size)))
        size += part.size
    return _Nested(tuple(parts), size, named, parts[0][2].layout if first else ())
