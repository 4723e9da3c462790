"""Student's t distribution, implemented here because nothing else needs scipy at run time."""

import math
from functools import lru_cache


def t_cdf(t: float, freedom: float) -> float:
    """P(T <= t) for Student's t with `freedom` degrees of freedom, by the incomplete beta function.

    Abramowitz & Stegun, "Handbook of Mathematical Functions", 26.7.1 with 26.5.27. The relative error grows with the
    degrees of freedom and stays below 1e-8 up to a million.
    """
    tail = 0.5 * _regularised_beta(freedom / 2, 0.5, freedom / (freedom + t * t), t * t / (freedom + t * t))
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=1024)
def t_quantile(probability: float, freedom: float) -> float:
    """The t with ``t_cdf(t, freedom) = probability``, for a probability in (0.5, 1), by bisection."""
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, freedom) < probability else (low, middle)
    return high


def _regularised_beta(a: float, b: float, x: float, rest: float) -> float:
    """I_x(a, b). `rest` is 1 - x, a parameter because the difference would lose digits near one."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    # The fraction converges fast below the mean of the distribution. Above it the mirrored fraction does.
    if x > (a + 1) / (a + b + 2):
        return 1 - _regularised_beta(b, a, rest, x)
    log_factor = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    return math.exp(log_factor) / (a * _beta_fraction(a, b, x))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction 1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22, by the modified Lentz algorithm (DLMF 3.10)."""
    tiny = 1e-300
    value, numerator, denominator = 1.0, 1.0, 0.0
    for step in range(1, 10_000):
        m, odd = divmod(step, 2)
        if odd:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / ((1 + term * denominator) or tiny)
        numerator = (1 + term / numerator) or tiny
        value *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-15:
            break
    return value
