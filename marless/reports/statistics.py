"""Statistics of returns: point estimates, their intervals, and the test that two sets of runs are equally good.

Pure functions on numbers. Callers decide which numbers are compared and how they are shown.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from marless.coordinator.rules.student_t import t_cdf, t_quantile

# Two arms are told apart only with as many seeds of each arm, on one task and on several. If n paired seeds all favour
# one arm, the p-value of the sign test is 2 / 2^n: 0.06 for 5 seeds and 0.13 for 4. Source: Dixon and Mood, "The
# Statistical Sign Test", Journal of the American Statistical Association, 1946. And a bootstrap over n seeds shows (n -
# 1) / n of the variance, also where many tasks have n seeds each.
FEWEST_SEEDS = 5

FloatArray = NDArray[np.float64]
Interval = tuple[float, float]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate over `runs` runs or pairs with its 95 % interval, which is None for a single run."""

    value: float
    ci95: Interval | None
    runs: int


class FinalReturn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Summary of a policy's evaluation episodes.

    `ci95` is the interval of the mean over the episodes of this one run, not over seeds. It is None for a single
    episode.
    """

    mean: float
    iqm: float
    ci95: Interval | None
    episodes: int


class Equivalence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Result of `tost_paired`: `p_value` below 0.05 says that the means differ by less than the
    margin."""

    p_value: float
    difference: float
    ci90: Interval


def iqm(values: ArrayLike) -> float:
    """Interquartile mean: the mean after dropping the lowest and highest quarter.

    With n values, floor(n / 4) are dropped on each side, like in rliable (scipy's 25 % trimmed mean over all entries).
    Source: Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021.
    """
    return float(interquartile_means(_values(values, 1).ravel()))


def interquartile_means(values: FloatArray) -> FloatArray:
    """`iqm` along the last axis: ``[..., n]`` gives ``[...]``."""
    count = values.shape[-1]
    cut = count // 4
    means: FloatArray = np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)
    return means


def mean(values: ArrayLike) -> float:
    """Arithmetic mean."""
    return float(_values(values, 1).mean())


def sd(values: ArrayLike) -> float:
    """Standard deviation of a sample (divisor n - 1). It needs two values."""
    return float(_values(values, 2).std(ddof=1))


def ci95(values: ArrayLike) -> Interval:
    """95 % confidence interval of the mean of independent values, by Student's t. It needs two values."""
    array = _values(values, 2)
    half = t_quantile(0.975, array.size - 1) * sd(array) / math.sqrt(array.size)
    return mean(array) - half, mean(array) + half


def summary(returns: ArrayLike) -> FinalReturn:
    """Summarises one evaluation from its returns per episode."""
    array = _values(returns, 1)
    interval = ci95(array) if array.size > 1 else None
    return FinalReturn(mean=mean(array), iqm=iqm(array), ci95=interval, episodes=array.size)


def tost_paired(a: ArrayLike, b: ArrayLike, margin: float) -> Equivalence:
    """Two one-sided tests that the mean of ``a - b`` lies within `margin`, by Student's t on the differences of pairs.

    It is for paired values, such as runs of one seed. The common part of a pair does not count as spread. Source:
    Schuirmann, "A comparison of the two one-sided tests procedure and the power approach for assessing the equivalence
    of average bioavailability", 1987. Raises `ValueError` for unequal lengths and for fewer than two pairs.
    """
    first, second = _values(a, 2), _values(b, 2)
    if first.shape != second.shape:
        raise ValueError(f"pairs need as many values on both sides, not {first.size} and {second.size}")
    if not margin > 0:
        raise ValueError(f"the margin must be positive, not {margin}")
    difference, error, freedom = mean(first - second), sd(first - second) / math.sqrt(first.size), first.size - 1
    if error == 0:
        certain = 0.0 if abs(difference) < margin else 1.0
        return Equivalence(p_value=certain, difference=difference, ci90=(difference, difference))
    above_lower = t_cdf(-(difference + margin) / error, freedom)
    below_upper = t_cdf((difference - margin) / error, freedom)
    half = t_quantile(0.95, freedom) * error
    interval = difference - half, difference + half
    return Equivalence(p_value=max(above_lower, below_upper), difference=difference, ci90=interval)


def paired_p_value(differences: ArrayLike) -> float:
    """Return the two-sided p-value of Student's t-test that independent differences of pairs have the mean 0."""
    array = _values(differences, 2)
    error = sd(array) / math.sqrt(array.size)
    if error == 0:
        return 0.0 if mean(array) else 1.0
    return 2 * t_cdf(-abs(mean(array)) / error, array.size - 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's procedure (1979), to compare with any level."""
    adjusted_p, highest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted_p[index] = highest
    return adjusted_p


def adjusted_rand(one: Sequence[int], other: Sequence[int]) -> float:
    """The adjusted Rand index of two partitions of the same items, at least two: 1 if equal, 0 on average by chance.

    Hubert and Arabie, "Comparing partitions", 1985: over pairs of items in one group, (both - expected) / (mean of
    either - expected). 1 if the denominator is 0.
    """
    both = _together(list(zip(one, other, strict=True)))
    first, second, pairs = _together(one), _together(other), len(one) * (len(one) - 1) / 2
    by_chance, most = first * second / pairs, (first + second) / 2
    return (both - by_chance) / (most - by_chance) if most != by_chance else 1.0


def _together(labels: Sequence[object]) -> float:
    return float(sum(labels.count(label) - 1 for label in labels)) / 2


def _values(values: ArrayLike, least: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.size < least:
        raise ValueError(f"needs at least {least} value{'s' * (least > 1)}, got {array.size}")
    return array
