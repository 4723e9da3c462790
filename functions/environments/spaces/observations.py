"""Observations of one space, between the environment's own form and the numbers of networks.

A space is a dictionary, as JSON holds it. Bounds, counts and starts are one for all or one for each:

    {"type": "box", "shape": [2], "dtype": "float32", "low": [-1.0], "high": [null]}
    {"type": "discrete", "n": 3, "start": 0}
    {"type": "multi_discrete", "shape": [2], "dtype": "int64", "counts": [2, 3], "start": [0]}
    {"type": "multi_binary", "shape": [4]}
    {"type": "dict", "keys": ["dial", 1], "spaces": [...]}
    {"type": "tuple", "spaces": [...]}
    {"type": "vector", "shape": [6]}, so many numbers, flat or in this shape

Numbers (box, multi_binary, vector) are flattened, choices (discrete, multi_discrete) become one-hots, and nested spaces
are concatenated. The order is `gymnasium.spaces.utils.flatten`'s, but the only image or table comes first. Images
(boxes of uint8 from 0 to 255) are scaled to 0..1. That function is not called, because it skips checks: it takes a
choice of -1 for the last one and accepts wrong shapes and infinite values.
"""

import math
import operator
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
Space = Mapping[str, Any]

_BRIGHTEST = np.float32(255)
_SINGLE = np.dtype(np.float32)
# Float32 numbers do not overflow if their squares add up to less than this.
_LARGEST = 1e76


class SpaceError(ValueError):
    """An observation, action or mask that is not in its space. The message says which and how."""


class NoAction(SpaceError):
    """A mask that allows no action."""


def finite_numbers(value: object, shape: tuple[int, ...], label: str, dtype: DTypeLike = np.float32) -> Array:
    """`value` as finite numbers of `shape`. A single number may have any shape. Raises `SpaceError`."""
    try:
        array = np.asarray(value)
        # As a number, None is NaN.
        holds_none = array.dtype == object and any(entry is None for entry in array.reshape(-1).tolist())
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")
        if array.dtype != dtype and not holds_none:
            with np.errstate(over="ignore"):
                array = array.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise SpaceError(f"{label} is not numeric ({type(error).__name__}: {error})") from error
    if holds_none:
        raise SpaceError(f"{label} is {'None' if value is None else 'None in part'}")
    if array.shape != shape and not array.size == math.prod(shape) == 1:
        raise SpaceError(f"{label} has shape {array.shape}, not {shape}")
    if not np.isfinite(array).all():
        raise SpaceError(f"{label} is not finite")
    return array.reshape(shape)


def whole_numbers(value: object, shape: tuple[int, ...], start: Any, counts: Any, label: str) -> Array:
    """Choices of `shape`, each one of `counts` from `start`, as numbers from 0. Raises `SpaceError`."""
    numbers = finite_numbers(value, shape, label, np.float64) - start
    if ((numbers < 0) | (numbers >= counts) | (numbers != np.floor(numbers))).any():
        raise SpaceError(f"{label} is {value}, which is outside its space")
    return np.asarray(numbers).astype(np.int64)


def full_array(values: Any, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """One value for all, or one for each of an array of `shape`, as the latter."""
    array = np.asarray(values, dtype)
    return np.full(shape, array[0]) if array.size == 1 else array.reshape(shape)


def bound(values: Any, none: float, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """A bound of a box as an array of `shape`, with `none` for missing bounds."""
    return full_array([none if value is None else value for value in values], shape, dtype)


class ObservationCodec(Protocol):
    """Observations of one space as vectors of `size` numbers."""

    @property
    def size(self) -> int: ...

    @property
    def layout(self) -> tuple[int, ...]:
        """The shape ``[H, W, C]`` of an image, or the shape of another array of two axes or more, when these numbers
        come first in the vector. Otherwise ()."""

    @property
    def finite(self) -> bool:
        """Return True if `write_fast` can write only finite numbers."""

    def batch_of(self, observation: Any) -> tuple[int, ...]:
        """The axes before the axes of one observation. It is () without such axes, and for a value outside of this
        space."""

    def write(self, observation: Any, label: str, out: Array) -> None:
        """Writes observations, a batch of the leading axes of `out`, into it ``[..., size]``. Raises `SpaceError`."""

    def write_fast(self, observation: Any, out: Array, at: Any) -> None:
        """Writes one observation into ``out[at]``, zeros ``[size]``, like `write`. It raises any error for a value that
        it does not know to be right, and lets infinite numbers pass."""

    def read(self, values: Array) -> Any:
        """The observations that `write` turns into `values` ``[..., size]``."""


class _Numbers:
    def __init__(self, space: Space) -> None:
        self.shape, self._loose = tuple(space["shape"]), space["type"] == "vector"
        self.dtype = np.dtype(space.get("dtype", "int8" if space["type"] == "multi_binary" else "float32"))
        image = self.dtype == np.uint8 and (tuple(space["low"]), tuple(space["high"])) == ((0,), (255,))
        self.finite, self.size = image, math.prod(self.shape)
        self._ends = space.get("low", (None,)), space.get("high", (None,))
        self.layout = self.shape if len(self.shape) > 1 else ()
        if image and len(self.shape) == 2:
            self.layout = (*self.shape, 1)

    def batch_of(self, observation: Any) -> tuple[int, ...]:
        whole = shape_of(observation)
        lead = whole[: max(0, len(whole) - len(self.shape))]
        if whole == (*lead, *self.shape):
            return lead
        return whole[:-1] if self._loose and whole[-1:] == (self.size,) else ()

    def write(self, observation: Any, label: str, out: Array) -> None:
        shape = (*out.shape[:-1], *self.shape)
        if self._loose and math.prod(shape_of(observation)) == out.size:
            shape = shape_of(observation)
        flat = finite_numbers(observation, shape, label).reshape(out.shape)
        if self.finite:
            np.divide(flat, _BRIGHTEST, out=out)
        else:
            out[...] = flat

    def write_fast(self, observation: Any, out: Array, at: Any) -> None:
        if isinstance(observation, list):
            observation = np.array(observation)
        if observation.shape != self.shape:
            raise ValueError
        if observation.dtype is not _SINGLE:
            if self.finite and observation.dtype == np.uint8:
                np.divide(observation.reshape(-1), _BRIGHTEST, out=out[at])
                return
            _require_small(observation)
        if self.finite:
            raise ValueError
        out[at] = observation if len(self.shape) == 1 else observation.reshape(-1)

    def read(self, values: Array) -> Any:
        numbers = (values * _BRIGHTEST if self.finite else values).reshape((*values.shape[:-1], *self.shape))
        if self.dtype.kind != "f":
            numbers = np.rint(numbers)
        # Numbers of more digits may have been rounded to beyond their bounds.
        low, high = (
            bound(end, none, self.shape, np.float64) for end, none in zip(self._ends, (-np.inf, np.inf), strict=True)
        )
        if self.dtype.kind in "iu":
            # The largest whole number of 64 bits is none of floating point.
            beyond = 2.0 ** (8 * self.dtype.itemsize - (self.dtype.kind == "i"))
            high = np.minimum(high, np.nextafter(beyond, 0))
        return np.clip(numbers.astype(np.float64), low, high).astype(self.dtype)


def shape_of(observation: Any) -> tuple[int, ...]:
    """The shape of an array or of nested lists, or () for other values."""
    try:
        return np.shape(observation)
    except ValueError:  # of lists of different lengths
        return ()


def is_finite(numbers: Array) -> bool:
    """Return False if a number or the sum of squares is infinite or NaN, in a fifth of the time of `numpy.isfinite`."""
    return math.isfinite(np.vdot(numbers, numbers))


def _require_small(numbers: Array) -> None:
    """Raises an error for kinds of numbers that may overflow as float32, without numpy's warning about it."""
    kind = numbers.dtype.kind
    if kind not in "biu" and not (kind == "f" and float(np.vdot(numbers, numbers)) < _LARGEST):
        raise ValueError


class _Choice:
    layout: tuple[int, ...] = ()
    finite = True

    def __init__(self, space: Space) -> None:
        self.size, self._first = space["n"], space["start"]

    def batch_of(self, observation: Any) -> tuple[int, ...]:
        return shape_of(observation)

    def write(self, observation: Any, label: str, out: Array) -> None:
        number = whole_numbers(observation, out.shape[:-1], self._first, self.size, label)
        out[...] = np.arange(self.size) == number[..., None]

    def write_fast(self, observation: Any, out: Array, at: Any) -> None:
        number = operator.index(observation) - self._first
        if not 0 <= number < self.size:
            raise ValueError
        out[at][number] = 1

    def read(self, values: Array) -> Any:
        return (values.argmax(axis=-1) + self._first).tolist() if values.ndim == 1 else values.argmax(-1) + self._first


class _Choices:
    """An array of choices, each a one-hot of length `counts[i]`. Choice i counts from `first[i]`."""

    layout: tuple[int, ...] = ()
    finite = True

    def __init__(self, space: Space) -> None:
        self._shape = tuple(space["shape"])
        self._counts, self._first = (full_array(space[key], self._shape, np.int64) for key in ("counts", "start"))
        self._dtype, self.size = np.dtype(space["dtype"]), int(self._counts.sum())
        self._offsets = (np.cumsum(self._counts) - self._counts.reshape(-1)).reshape(-1)

    def batch_of(self, observation: Any) -> tuple[int, ...]:
        whole = shape_of(observation)
        lead = whole[: max(0, len(whole) - len(self._shape))]
        return lead if whole == (*lead, *self._shape) else ()

    def write(self, observation: Any, label: str, out: Array) -> None:
        batch = out.shape[:-1]
        indices = whole_numbers(observation, (*batch, *self._shape), self._first, self._counts, label)
        out[...] = 0
        np.put_along_axis(out, self._offsets + indices.reshape((*batch, -1)), 1, axis=-1)

    def write_fast(self, observation: Any, out: Array, at: Any) -> None:
        if observation.shape != self._shape or observation.dtype.kind not in "iu":
            raise ValueError
        indices = observation - self._first
        if ((indices < 0) | (indices >= self._counts)).any():
            raise ValueError
        out[at][self._offsets + indices.reshape(-1)] = 1

    def read(self, values: Array) -> Any:
        parts = np.split(values, self._offsets[1:], axis=-1)
        indices = np.stack([part.argmax(axis=-1) for part in parts], axis=-1)
        return (indices.reshape((*values.shape[:-1], *self._shape)) + self._first).astype(self._dtype)


class _Nested:
    def __init__(self, space: Space) -> None:
        self._named = space["type"] == "dict"
        keys = space["keys"] if self._named else range(len(space["spaces"]))
        codecs = {key: observation_codec(part) for key, part in zip(keys, space["spaces"], strict=True)}
        part_keys = [key for key, codec in codecs.items() if codec.layout]
        first = part_keys if len(part_keys) == 1 else []
        self.size, self._keys = 0, tuple(codecs)
        # Key, codec and columns of each.
        self._parts: list[tuple[Any, ObservationCodec, slice]] = []
        for key in (*first, *(key for key in codecs if key not in first)):
            columns = slice(self.size, self.size + codecs[key].size)
            self._parts.append((key, codecs[key], columns))
            self.size = columns.stop
        self.layout = codecs[first[0]].layout if first else ()
        self.finite = all(codec.finite for codec in codecs.values())

    def batch_of(self, observation: Any) -> tuple[int, ...]:
        entries = self._entries(observation)
        # Some environments return a single number with an axis: it is a batch only if all parts have that axis.
        batches = [part.batch_of(entries[key]) for key, part, _ in self._parts if part.size] if entries else []
        return min(batches, key=len, default=())

    def write(self, observation: Any, label: str, out: Array) -> None:
        if (entries := self._entries(observation)) is None:
            keys = [key for key, *_ in self._parts]
            expectation = f"a dictionary with {keys}" if self._named else f"a tuple of {len(keys)}"
            raise SpaceError(f"{label} is not {expectation}")
        for key, part, columns in self._parts:
            part.write(entries[key], f"{label}[{key!r}]", out[..., columns])

    def write_fast(self, observation: Any, out: Array, at: Any) -> None:
        if self._named:
            right = isinstance(observation, dict)
        else:
            right = isinstance(observation, tuple | list) and len(observation) == len(self._keys)
        if not right:
            raise ValueError
        rows = out[at]
        for key, part, columns in self._parts:
            part.write_fast(observation[key], rows, columns)

    def read(self, values: Array) -> Any:
        entries = {key: part.read(values[..., columns]) for key, part, columns in self._parts}
        by_key = {key: entries[key] for key in self._keys}
        return by_key if self._named else tuple(by_key.values())

    def _entries(self, observation: Any) -> Mapping[Any, Any] | None:
        if not self._named:
            whole = isinstance(observation, tuple | list | np.ndarray) and len(observation) == len(self._keys)
            return dict(enumerate(observation)) if whole else None
        if not isinstance(observation, Mapping):
            return None
        # Keys of other types than text and whole numbers are known by their text.
        entries = (
            observation
            if all(key in observation for key in self._keys)
            else {str(key): part for key, part in observation.items()}
        )
        return entries if all(key in entries for key in self._keys) else None


_CODECS: dict[str, Any] = {
    "box": _Numbers,
    "multi_binary": _Numbers,
    "vector": _Numbers,
    "discrete": _Choice,
    "multi_discrete": _Choices,
    "dict": _Nested,
    "tuple": _Nested,
}


def observation_codec(space: Space) -> ObservationCodec:
    """The codec of a space. Raises `KeyError` for one of an unknown type."""
    codec: ObservationCodec = _CODECS[space["type"]](space)
    return codec
