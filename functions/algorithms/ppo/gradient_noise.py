"""The gradient noise scale, estimated from gradients of parts of a round."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The most gradient samples for the noise estimate, and their share of the data, which bounds the cost.
MOST_SAMPLES, SAMPLE_SHARE = 8, 0.5


class GradientNoise(NamedTuple):
    """The two parts of the gradient noise scale (McCandlish et al., "An Empirical Model of Large-Batch Training",
    2018).

    `trace` is tr of the covariance of one rollout's mean gradient, `square` estimates |true gradient|² and may be below
    0 by chance. Their ratio is the number of rollouts beyond which more data in a round has diminishing returns.
    """

    trace: float
    square: float


class SampleBlocks(NamedTuple):
    """`parts` are the environments of each sample, and `size` is their number in units of a rollout's environments."""

    parts: tuple[range, ...]
    size: float


def sample_blocks(rollouts: int, num_envs: int) -> SampleBlocks:
    """The environments of each gradient sample, of the round's `num_envs`, which are ordered by rollout.

    A sample has a part of the environments of one rollout, or of several if there are more rollouts than samples.
    Environments are independent, so a part's noise follows from its number of environments.
    """
    samples, envs = min(MOST_SAMPLES, rollouts), num_envs // rollouts
    width = rollouts // samples * envs
    sample_width = math.ceil(SAMPLE_SHARE * width)
    firsts = range(0, samples * width, width)
    return SampleBlocks(tuple(range(first, first + sample_width) for first in firsts), sample_width / envs)


def noise_estimate(gradients: NDArray[Any], size: float = 1.0) -> GradientNoise:
    """Unbiased estimates from `gradients` ``[U, parameters]``, each the mean over the data of `size` rollouts.

    The mean of U independent samples has 1 / U of their variance. On average its square exceeds the square of the true
    gradient by this much. Raises `ValueError` for fewer than two samples.
    """
    if (count := len(gradients)) < 2:
        raise ValueError(f"the noise of a gradient needs at least 2 samples, got {count}")
    wide = gradients.astype(np.float64)
    mean = wide.mean(axis=0)
    wide -= mean
    trace = float(np.vdot(wide, wide)) / (count - 1)
    return GradientNoise(trace * size, float(mean @ mean) - trace / count)
