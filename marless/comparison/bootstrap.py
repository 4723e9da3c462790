"""Statistics of scores with their stratified bootstrap intervals, over many resamples at once.

After Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021, and their
library rliable. A score matrix is ``[seeds, tasks]``. Seeds are drawn with replacement for each task on its own.
Statistics take ``[..., seeds, tasks]`` and give ``[...]``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.randomness import generator
from marless.reports.statistics import FloatArray, Interval, interquartile_means

# As many as rliable takes for tables, and for curves and profiles.
REPETITIONS, FEWER = 50_000, 2_000
# Resamples held in memory at once.
_BLOCK = 1_000

Ranks = NDArray[np.int64]
Scores = NDArray[Any]
"""Of an arm ``[seeds, tasks]``."""
# Of one arm or two, each ``[..., seeds, tasks]``.
Statistic = Callable[..., FloatArray]


def iqm(scores: FloatArray) -> FloatArray:
    """Interquartile mean over all seeds and tasks, see `statistics.iqm`."""
    return interquartile_means(scores.reshape(*scores.shape[:-2], -1))


def mean(scores: FloatArray) -> FloatArray:
    """Mean over all seeds and tasks."""
    means: FloatArray = scores.mean(axis=(-2, -1))
    return means


def median(scores: FloatArray) -> FloatArray:
    """Median of the tasks' means, like rliable's. With one task, where this is the mean, the median over seeds."""
    values = scores[..., 0] if scores.shape[-1] == 1 else scores.mean(axis=-2)
    return np.asarray(np.median(values, axis=-1))


def optimality_gap(scores: FloatArray) -> FloatArray:
    """The mean distance of scores below 1. Higher scores count as 1."""
    gaps: FloatArray = 1.0 - np.minimum(scores, 1.0).mean(axis=(-2, -1))
    return gaps


def improvement(first: Ranks, second: Ranks) -> FloatArray:
    """Probability that a run of the first arm scores higher than one of the second, mean over tasks, from the `ranks`
    of their scores.

    The share of all pairs, ties counting half: Mann and Whitney's U divided by the number of pairs. It is counted by
    ranks, as pairs of many seeds in many resamples fill the memory.
    """
    size = int(max(first.max(), second.max())) + 1
    above, counts = _counts(first, size), _counts(second, size)
    below = np.cumsum(counts, axis=-2) - counts
    wins = (above * (below + 0.5 * counts)).sum(axis=(-2, -1))
    return np.asarray(wins / (first.shape[-2] * second.shape[-2] * first.shape[-1]))


def ranks(first: FloatArray, second: FloatArray) -> tuple[Ranks, Ranks]:
    """The position of each score of two arms, ``[..., seeds, tasks]``, among the distinct scores of both."""
    _, positions = np.unique(np.concatenate([first, second], axis=-2), return_inverse=True)
    positions = positions.reshape(*first.shape[:-2], -1, first.shape[-1])
    seeds = first.shape[-2]
    return positions[..., :seeds, :], positions[..., seeds:, :]


def _counts(positions: Ranks, size: int) -> Ranks:
    """Count each rank, ``[..., ranks, tasks]``, among the positions ``[..., seeds, tasks]``."""
    rows = np.moveaxis(positions, -2, -1).reshape(-1, positions.shape[-2])
    places = rows + size * np.arange(len(rows))[:, np.newaxis]
    counts = np.bincount(places.ravel(), minlength=size * len(rows))
    return np.moveaxis(counts.reshape(*positions.shape[:-2], positions.shape[-1], size), -1, -2)


def improvement_by_seed(first: FloatArray, second: FloatArray) -> FloatArray:
    """The same over pairs of runs of one seed alone."""
    return np.asarray(((first > second) + 0.5 * (first == second)).mean(axis=(-2, -1)))


def iqm_difference(first: FloatArray, second: FloatArray) -> FloatArray:
    """The interquartile mean of the first arm less the second's."""
    return iqm(first) - iqm(second)


def interval(
    statistic: Statistic,
    arms: Sequence[Scores],
    address: Sequence[str],
    together: bool = False,
    repetitions: int = REPETITIONS,
    stream: str = "comparison",
) -> Interval | None:
    """95 % percentile interval of a statistic of one or two arms, or None if an arm has one seed.

    `together`: the arms have the same seeds, which are drawn for both at once. A seed's effect on both then does not
    count as spread. `stream` and `address` are the address of the random numbers.
    """
    return intervals(statistic, [arms], address, together, repetitions, stream)[0]


def intervals(
    statistic: Statistic,
    positions: Sequence[Sequence[Scores]],
    address: Sequence[str],
    together: bool = False,
    repetitions: int = REPETITIONS,
    stream: str = "comparison",
) -> list[Interval] | list[None]:
    """`interval` at several positions, such as points of a curve, by the same resamples of seeds."""
    shapes = [scores.shape for scores in positions[0]]
    if min(shape[0] for shape in shapes) < 2:
        return [None] * len(positions)
    rng = generator(0, stream, *address)
    blocks = []
    for start in range(0, repetitions, _BLOCK):
        rows = _rows(rng, shapes, min(_BLOCK, repetitions - start), together)
        blocks.append([statistic(*map(_resample, arms, rows)) for arms in positions])
    low, high = np.quantile(np.concatenate(blocks, axis=-1), [(1 - 0.95) / 2, (1 + 0.95) / 2], axis=-1)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _rows(
    rng: np.random.Generator, shapes: Sequence[tuple[int, ...]], repetitions: int, together: bool
) -> list[NDArray[np.int64]]:
    """For each arm the seeds ``[repetitions, seeds, tasks]`` of its resamples."""
    rows: list[NDArray[np.int64]] = []
    for shape in shapes:
        rows.append(rows[0] if rows and together else rng.integers(shape[0], size=(repetitions, *shape)))
    return rows


def _resample(scores: Scores, rows: NDArray[np.int64]) -> Scores:
    """The scores ``[repetitions, seeds, tasks]`` of these seeds, drawn separately for each task."""
    tasks = scores.shape[1]
    return np.asarray(scores.ravel().take(rows * tasks + np.arange(tasks)))
