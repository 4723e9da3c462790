"""Random numbers and matrices with the same bytes on every machine.

numpy's `standard_normal` and LAPACK's decompositions call libraries with last bits that depend on the processor. Here
all are additions, multiplications, divisions and square roots in numpy, in the order of its source, and the kernels'
logarithm.
"""

import numpy as np
from numpy.typing import NDArray

from marless.functions.native.arithmetic import NATIVE
from marless.functions.nn.layers import Array


def orthogonal(rng: np.random.Generator, rows: int, columns: int) -> Array:
    """See `marless.functions.nn.layers.orthogonal`.

    The columns of a Gaussian matrix are made orthogonal to the columns before. They are distributed uniformly (Haar),
    as the triangular factor has a positive diagonal. The modified Gram-Schmidt process goes twice over them, which
    makes them orthogonal to working precision (Giraud et al., 2005).
    """
    matrix = standard_normal(rng, rows * columns).reshape(max(rows, columns), min(rows, columns))
    for _ in range(2):
        for index in range(matrix.shape[1]):
            column, rest = matrix[:, index : index + 1], matrix[:, index + 1 :]
            column /= np.sqrt(np.add.reduce(column * column, axis=0))
            rest -= column * np.add.reduce(column * rest, axis=0)
    return matrix if rows >= columns else matrix.T


def standard_normal(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """So many normal numbers, by the polar method (Marsaglia and Bray, 1964) with a logarithm of single precision."""
    numbers = np.zeros(0)
    while len(numbers) < count:
        points = 2 * rng.random((2, count - len(numbers))) - 1
        squares = points[0] * points[0] + points[1] * points[1]
        inside = (squares > 0) & (squares < 1)
        squares = squares[inside]
        points = points[:, inside] * np.sqrt(-2 * NATIVE.log(squares) / squares)
        numbers = np.concatenate([numbers, points.ravel()])
    return numbers[:count]
