"""The exponential function of functions/environments/mpe/arithmetic.py in C, with the same bytes."""

import numpy as np
from numpy.typing import NDArray

from functions.nn.native.kernels import address, kernels

Values = NDArray[np.float64]


def exp(values: Values) -> Values:
    """e to the power of numbers from -700 to 700."""
    result = np.array(values, order="C")
    kernels().doubles_exp(address(result, np.float64, result.shape), result.size)
    return result
