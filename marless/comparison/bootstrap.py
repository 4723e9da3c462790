"""Statistics of scores with their stratified bootstrap intervals, over many resamples at once.

After Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021, and their
library rliable. A score matrix is ``[seeds, tasks]``; seeds are drawn with replacement for each task on its own.
Statistics take ``[..., seeds, tasks]`` and give ``[...]``.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from functions.randomness import generator
from marless.comparison.curve import FloatArray
from marless.reports.statistics import Interval, interquartile_means, percentiles, stratified_rows

# As many as rliable takes for tables, and for curves and profiles.
REPETITIONS, FEWER = 50_000, 2_000
# Resamples held in memory at once.
_BLOCK = 1_000

Statistic = Callable[[FloatArray], FloatArray]
# Of two arms, each ``[..., seeds, tasks]``.
OfArms = Callable[..., FloatArray]


def iqm(scores: FloatArray) -> FloatArray:
    """Interquartile mean over all seeds and tasks, see `statistics.iqm`."""
    return interquartile_means(scores.reshape(*scores.shape[:-2], -1))


def mean(scores: FloatArray) -> FloatArray:
    """Mean over all seeds and tasks."""
    means: FloatArray = scores.mean(axis=(-2, -1))
    return means


def median(scores: FloatArray) -> FloatArray:
    """Median of the tasks' means, as in rliable; with one task, where that is the mean, the median over seeds."""
    values = scores[..., 0] if scores.shape[-1] == 1 else scores.mean(axis=-2)
    return np.asarray(np.median(values, axis=-1))


def optimality_gap(scores: FloatArray) -> FloatArray:
    """How far scores are below 1 on average, those above it counting as 1."""
    gaps: FloatArray = 1.0 - np.minimum(scores, 1.0).mean(axis=(-2, -1))
    return gaps


def improvement(own: FloatArray, base: FloatArray) -> FloatArray:
    """Probability that a run of `own` scores higher than one of `base`, mean over tasks.

    The share of all pairs, ties counting half: Mann and Whitney's U divided by the number of pairs. It is counted by
    ranks, as pairs of many seeds in many resamples fill the memory.
    """
    distinct, ranks = np.unique(np.concatenate([own, base], axis=-2), return_inverse=True)
    ranks = ranks.reshape(*own.shape[:-2], -1, own.shape[-1])
    first, second = (_counts(part, distinct.size) for part in np.split(ranks, [own.shape[-2]], axis=-2))
    below = np.cumsum(second, axis=-2) - second
    wins = (first * (below + 0.5 * second)).sum(axis=(-2, -1))
    return np.asarray(wins / (own.shape[-2] * base.shape[-2] * own.shape[-1]))


def _counts(ranks: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """How often each rank occurs, ``[..., ranks, tasks]``, among those of ``[..., seeds, tasks]``."""
    rows = np.moveaxis(ranks, -2, -1).reshape(-1, ranks.shape[-2])
    places = rows + size * np.arange(len(rows))[:, np.newaxis]
    counts = np.bincount(places.ravel(), minlength=size * len(rows))
    return np.moveaxis(counts.reshape(*ranks.shape[:-2], ranks.shape[-1], size), -1, -2)


def improvement_by_seed(own: FloatArray, base: FloatArray) -> FloatArray:
    """The same over pairs of runs of one seed alone."""
    return np.asarray(_wins(own, base).mean(axis=(-2, -1)))


def iqm_difference(own: FloatArray, base: FloatArray) -> FloatArray:
    """The interquartile mean of `own` less that of `base`."""
    return iqm(own) - iqm(base)


def interval(
    statistic: OfArms,
    arms: Sequence[FloatArray],
    address: Sequence[str],
    together: bool = False,
    repetitions: int = REPETITIONS,
) -> Interval | None:
    """95 % percentile interval of a statistic of one or two arms; None when an arm has one seed.

    `together`: the arms have the same seeds, which are drawn for both at once, so that what a seed does to both does
    not count as spread. `address` is that of the random numbers.
    """
    if min(len(scores) for scores in arms) < 2:
        return None
    rng = generator(0, "comparison", *address)
    found = []
    for start in range(0, repetitions, _BLOCK):
        size = min(_BLOCK, repetitions - start)
        drawn: list[FloatArray] = []
        for scores in arms:
            if not drawn or not together:
                rows = stratified_rows(rng, scores.shape, size)
            drawn.append(np.take_along_axis(scores[np.newaxis], rows, axis=1))
        found.append(statistic(*drawn))
    return percentiles(np.concatenate(found))


def _wins(own: FloatArray, base: FloatArray) -> FloatArray:
    wins: FloatArray = (own > base) + 0.5 * (own == base)
    return wins
