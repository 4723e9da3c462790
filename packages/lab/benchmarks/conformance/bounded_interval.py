"""The interval of the mean of values that have bounds, such as shares of battles won."""

import math

import numpy as np
from numpy.typing import ArrayLike

from marless.coordinator.rules.student_t import t_quantile
from marless.reports.statistics import Interval, mean


def bounded_ci95(means: ArrayLike, episodes: int, bounds: Interval = (0.0, 1.0)) -> Interval:
    """95 % confidence interval of the mean of values within `bounds`, such as shares of battles won. It stays there.

    `means` are of independent runs, at least two, each over so many `episodes`. It is Wilson's score interval
    ("Probable Inference, the Law of Succession, and Statistical Inference", JASA 1927) with Student's quantile. Its
    number of independent values has the same standard error as the runs, like for shares in samples of clusters.
    Source: Franco, Little, Louis and Slud, "Comparative Study of Confidence Intervals for Proportions in Complex Sample
    Surveys", Journal of Survey Statistics and Methodology, 2019. Runs count as varying at least as much as their
    episodes. So runs that agree by chance, for example if all always win, leave an interval. Raises `ValueError` for
    fewer than two runs.
    """
    if np.size(means) < 2:
        raise ValueError("an interval needs at least two runs")
    low, high = bounds
    shares = np.clip((np.asarray(means, np.float64) - low) / (high - low), 0.0, 1.0)
    share, runs = mean(shares), shares.size
    # The variance of a value within [0, 1] is at most a coin's variance.
    largest = share * (1 - share)
    variance = max(float(shares.var(ddof=1)), largest / episodes)
    spread = t_quantile(0.975, runs - 1) ** 2 / (runs * largest / variance if largest else runs * episodes)
    middle, half = share + spread / 2, math.sqrt(spread * largest + spread**2 / 4)
    ends = (max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread)))
    return low + (high - low) * ends[0], low + (high - low) * ends[1]
