"""How noisy a gradient is, in units of sampling: the two halves of the gradient noise scale.

McCandlish et al., "An Empirical Model of Large-Batch Training", 2018: the noise of one unit's gradient over the square
of the true gradient is the number of units beyond which more data in a round pays less and less.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Samples of the gradient that are compared at most, and the share of the data they are made of: what bounds the cost.
MOST = 8
SHARE = 0.5


class Noise(NamedTuple):
    """`trace`: tr of the covariance of one unit's mean gradient. `square`: |true gradient|², below 0 by chance."""

    trace: float
    square: float


class Blocks(NamedTuple):
    """`parts`: the numbers of the copies of each sample; `size`: how many units' copies that is."""

    parts: tuple[range, ...]
    size: float


def blocks(rollouts: int, num_envs: int) -> Blocks:
    """Which of the round's `num_envs`, those of unit after unit, each sample of the gradient is made of.

    A sample has part of the copies of one unit, or of several where there are more units than samples: copies are
    independent of each other, so a part is as noisy as its number of copies says.
    """
    samples, each = min(MOST, rollouts), num_envs // rollouts
    width = rollouts // samples * each
    used = math.ceil(SHARE * width)
    firsts = range(0, samples * width, width)
    return Blocks(tuple(range(first, first + used) for first in firsts), used / each)


def estimate(gradients: NDArray[Any], size: float = 1.0) -> Noise:
    """Unbiased estimates from `gradients` ``[U, parameters]``, each the mean over the data of `size` units.

    With U independent samples the variance of their mean is a U-th of theirs, and by just that the squared mean
    exceeds the square of the true gradient on average. Raises `ValueError` for fewer than two samples.
    """
    count = len(gradients)
    if count < 2:
        raise ValueError(f"the noise of a gradient needs at least 2 samples, got {count}")
    wide = gradients.astype(np.float64)
    mean = wide.mean(axis=0)
    wide -= mean
    trace = float(np.vdot(wide, wide)) / (count - 1)
    return Noise(trace * size, float(mean @ mean) - trace / count)
