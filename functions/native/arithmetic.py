"""Compute heads, losses and mixing networks between the passes of networks, by numpy or the kernels."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.native.kernels import kernels

Array = NDArray[Any]

# `enum Function` of kernels.h.
_EXPONENTIAL, _LOGARITHM, _HYPERBOLIC_TANGENT = range(3)


class Arithmetic(Protocol):
    """numpy's functions of these names. Results have the precision of the arguments.

    `einsum` takes two arrays, and each letter is an axis.
    """

    @property
    def exp(self) -> Callable[[Array], Array]: ...

    @property
    def log(self) -> Callable[[Array], Array]: ...

    @property
    def tanh(self) -> Callable[[Array], Array]: ...

    @property
    def einsum(self) -> Callable[[str, Array, Array], Array]: ...


class _Native:
    """The same bytes on every processor, and `MissingExtra` without kernels.

    exp, log and tanh are computed in single precision for arrays of any precision. elementary.h states their errors,
    and C99 defines infinities and NaN. The last bits of numpy's functions depend on the processor and its libraries.
    Its sums over an axis add in the order of its source: in pairs along the last axis, otherwise one after another.
    """

    @staticmethod
    def exp(numbers: Array) -> Array:
        return _apply(_EXPONENTIAL, numbers)

    @staticmethod
    def log(numbers: Array) -> Array:
        return _apply(_LOGARITHM, numbers)

    @staticmethod
    def tanh(numbers: Array) -> Array:
        return _apply(_HYPERBOLIC_TANGENT, numbers)

    @staticmethod
    def einsum(subscripts: str, first: Array, second: Array) -> Array:
        factors, _, free = subscripts.partition("->")
        axes = free + "".join(sorted({*factors} - {*free, ","}))
        operands = zip((first, second), factors.split(","), strict=True)
        wide = [_wide(array, letters, axes) for array, letters in operands]
        return np.asarray(np.add.reduce(wide[0] * wide[1], axis=tuple(range(len(free), len(axes)))))


def _apply(function: int, numbers: Array) -> Array:
    results = np.array(numbers, np.float32, order="C")
    kernels().elementwise(function, results.ctypes.data, results.size)
    return results.astype(numbers.dtype, copy=False)


def _wide(array: Array, letters: str, axes: str) -> Array:
    """Order the array's axes, named by `letters`, like `axes`. Missing axes get length 1."""
    ordered = array.transpose([letters.index(letter) for letter in axes if letter in letters])
    return ordered.reshape([array.shape[letters.index(letter)] if letter in letters else 1 for letter in axes])


NUMPY: Arithmetic = np
NATIVE: Arithmetic = _Native()
