"""Worlds with steps of the same bytes on every machine.

numpy leaves two functions of the physics to the machine's mathematical library. Here they are additions,
multiplications, divisions and roundings in double precision, in the written order, and IEEE 754 has one result for
each. Errors are at most 2 units in the last place. Coefficients and reductions come from Sun's fdlibm, `e_exp.c` and
`s_log1p.c`.
"""

import numpy as np

from marless.functions.environments.mpe.world import Real, World

# Adding it rounds a number: the last bits of the sum are a whole number's.
_SHIFT = 1.5 * 2**52
_INVERSE_LN2 = 1.44269504088896338700e00
# ln 2 as two numbers, the first short enough that its multiples up to 2^10 are exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Of polynomials, highest power first.
_EXP: tuple[float, ...] = (
    4.13813679705723846039e-08, -1.65339022054652515390e-06, 6.61375632143793436117e-05, -2.77777777770155933842e-03,
    1.66666666666666019037e-01,
)  # fmt: skip
_LOG: tuple[float, ...] = (
    1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
    2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01,
)  # fmt: skip
_SQRT2_LESS_1 = 0.4142135623730951
# Bodies so many contact margins apart do not push: the force would be below 1e-18, and change only 0.
_FAR = -40.0


def exp(values: Real) -> Real:
    """e to the power of numbers from -700 to 700: 2^k e^r for |r| <= ln 2 / 2, e^r by a rational function."""
    shifted = values * _INVERSE_LN2 + _SHIFT
    k = shifted - _SHIFT  # a whole number
    high, low = values - k * _LN2_HIGH, k * _LN2_LOW
    r = high - low
    square = r * r
    c = r - square * _polynomial(_EXP, square)
    result: Real = 1 - ((low - r * c / (2 - c)) - high)
    exponents = shifted.view(np.int64) - np.float64(_SHIFT).view(np.int64)
    result *= ((exponents + 1023) << 52).view(np.float64)
    return result


def log1p(values: Real) -> Real:
    """log(1 + x) of numbers from 0 to 1, by a polynomial in f / (2 + f). Here 1 + x is 2^k (1 + f) for k 0 or 1 and |f|
    < 0.42."""
    k = values > _SQRT2_LESS_1
    f = np.where(k, (values - 1) * 0.5, values)
    half = 0.5 * f * f
    s = f / (2 + f)
    square = s * s
    result: Real = k * _LN2_HIGH - ((half - (s * (half + square * _polynomial(_LOG, square)) + k * _LN2_LOW)) - f)
    return result


def softplus(values: Real) -> None:
    """Writes log(1 + exp(x)) over every number, and 0 where it is below 1e-17."""
    flat = values.reshape(-1)
    near = np.flatnonzero(flat > _FAR)
    x = flat[near]
    flat.fill(0.0)
    flat[near] = np.maximum(x, 0.0) + log1p(exp(np.maximum(-np.abs(x), -700.0)))


def _polynomial(coefficients: tuple[float, ...], x: Real) -> Real:
    result = coefficients[0] * x
    for coefficient in coefficients[1:-1]:
        result += coefficient
        result *= x
    result += coefficients[-1]
    return result


class ExactWorld(World):
    """The physics of `World` with exact functions."""

    exp = staticmethod(exp)
    softplus = staticmethod(softplus)
