"""Running scales of value targets and of networks' inputs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.nn.layers import Array, Normalise

Statistics = NDArray[np.float64]
"""Counts, means and sums of squared distances from the mean ``[3, ...]``."""

MINIMUM_VARIANCE = 1e-2
# The name of the tensor with the statistics of a network's inputs.
SEEN = "seen"
# The guard of entries that never change comes from OpenAI Baselines.
INPUT_EPSILON = 1e-8


@dataclass(frozen=True)
class Normaliser:
    """Exponentially weighted mean and mean square, debiased by `weight` (as Adam debiases its moments).

    The ValueNorm of MAPPO (Yu et al., 2022), updated once a round. Before the first update it is the identity.
    """

    mean: float = 0.0
    square: float = 0.0
    weight: float = 0.0

    @property
    def centre(self) -> float:
        """The debiased mean."""
        return self.mean / self.weight if self.weight else 0.0

    @property
    def scale(self) -> float:
        """The debiased standard deviation, at least √0.01 so that constant targets do not explode."""
        if not self.weight:
            return 1.0
        return float(np.sqrt(max(self.square / self.weight - self.centre * self.centre, MINIMUM_VARIANCE)))

    @property
    def tensor(self) -> NDArray[np.float64]:
        """Mean, mean square and weight ``[3]``."""
        return np.array([self.mean, self.square, self.weight])

    def update(self, targets: Array, decay: float) -> "Normaliser":
        """The normaliser after one update with `targets`, or the same without targets."""
        if not targets.size:
            return self
        square = float(np.square(targets, dtype=np.float64).mean())
        return self.after(float(targets.mean(dtype=np.float64)), square, decay)

    def after(self, mean: float, square: float, decay: float) -> "Normaliser":
        """The normaliser after one update with targets of this mean and mean square."""
        return Normaliser(
            decay * self.mean + (1 - decay) * mean,
            decay * self.square + (1 - decay) * square,
            decay * self.weight + (1 - decay),
        )

    def normalise(self, values: Array) -> Array:
        """Values in units of the scale."""
        return (values - self.centre) / self.scale

    def denormalise(self, values: Array) -> Array:
        """The inverse of `normalise`."""
        return values * self.scale + self.centre


@dataclass(frozen=True)
class InputStatistics:
    """Statistics ``[3, F]`` of all inputs so far, in double precision. They are for each entry its count, its mean, and
    the sum of its squared distances from the mean."""

    tensor: NDArray[np.float64]

    @classmethod
    def none(cls, width: int) -> "InputStatistics":
        """Before the first input. They leave inputs within ±10 unchanged."""
        return cls(np.zeros((3, width)))

    def merge(self, rows: Array, present: NDArray[np.bool_] | None = None) -> "InputStatistics":
        """Return the statistics with further rows ``[B, F]``. Only entries that are `present` count."""
        return InputStatistics(merge_statistics(self.tensor, statistics_of(rows, present)))

    def normaliser(self, precision: np.dtype[Any]) -> Normalise:
        """Return the layer that normalises inputs of this precision."""
        count, mean, squares = self.tensor
        variance = np.where(count > 0, squares / np.maximum(count, 1), 1 - INPUT_EPSILON)
        return Normalise(mean.astype(precision), (1 / np.sqrt(variance + INPUT_EPSILON)).astype(precision))


def statistics_of(rows: Array, present: NDArray[np.bool_] | None = None) -> Statistics:
    """The statistics ``[3, F]`` of rows ``[B, F]`` in double precision. For each column they are the number of
    `present` entries, their mean, and the sum of their squared distances from it, or zeros without entries."""
    wide = np.array(rows, np.float64, order="C")  # the order of a sum depends on the layout
    present_mask = np.ones(wide.shape, np.bool_) if present is None else present
    wide[~present_mask] = 0
    count = present_mask.sum(axis=0, dtype=np.float64)
    mean = wide.sum(axis=0) / np.maximum(count, 1)
    wide -= mean
    wide[~present_mask] = 0
    return np.stack([count, mean, np.square(wide).sum(axis=0)])


def merge_statistics(old: Statistics, new: Statistics) -> Statistics:
    """The statistics ``[3, ...]`` of two samples together, see `statistics_of`.

    Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", 1983.
    """
    (old_count, before, squares), (count, mean, new_squares) = old, new
    together, apart = old_count + count, mean - before
    share = count / np.maximum(together, 1)
    spread = squares + new_squares + apart * apart * old_count * share
    return np.stack([together, before + share * apart, spread])
