"""What heads, losses and mixing networks compute with between the passes of networks: numpy, or the kernels."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.native.kernels import kernels

Array = NDArray[Any]

# `enum Function` of kernels.h.
_EXPONENTIAL, _LOGARITHM, _HYPERBOLIC_TANGENT = range(3)


class Arithmetic(Protocol):
    """numpy's functions of these names; results have the precision of the arguments.

    `einsum` takes two arrays, each letter of which is an axis.
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

    exp, log and tanh are computed in single precision whatever the precision of the array, with the errors that
    elementary.h states, and infinities and NaN as in C99. The last bits of numpy's own depend on the processor and its
    libraries. Sums of numpy over an axis have one order of additions, that of its source: in pairs along the last axis
    of an array, and else one after another.
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
    """The array, whose axes have these letters, with those of `axes`; those that it lacks have one place."""
    ordered = array.transpose([letters.index(letter) for letter in axes if letter in letters])
    return ordered.reshape([array.shape[letters.index(letter)] if letter in letters else 1 for letter in axes])


NUMPY: Arithmetic = np
NATIVE: Arithmetic = _Native()
