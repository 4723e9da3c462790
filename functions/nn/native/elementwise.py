"""exp, log and tanh of arrays of any shape, with the same bytes on every processor.

They are within two units in the last place of single precision, in which they are computed whatever the precision of
the array, with infinities and NaN as in C99. The last bits of numpy's own depend on the processor and its libraries.
"""

import numpy as np

from functions.nn.layers import Array
from functions.nn.native.kernels import kernels

# `enum Function` of elementwise.h.
_EXPONENTIAL, _LOGARITHM, _HYPERBOLIC_TANGENT = range(3)


def exp(numbers: Array) -> Array:
    """e to every number. Raises `MissingExtra` without kernels, as all here do."""
    return _apply(_EXPONENTIAL, numbers)


def log(numbers: Array) -> Array:
    """The natural logarithm of every number."""
    return _apply(_LOGARITHM, numbers)


def tanh(numbers: Array) -> Array:
    """The hyperbolic tangent of every number."""
    return _apply(_HYPERBOLIC_TANGENT, numbers)


def _apply(function: int, numbers: Array) -> Array:
    results = np.array(numbers, np.float32, order="C")
    kernels().elementwise(function, results.ctypes.data, results.size, results.ctypes.data)
    return results.astype(numbers.dtype, copy=False)
