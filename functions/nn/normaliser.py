"""Running scale of value targets."""

from dataclasses import dataclass

import numpy as np

from functions.nn.mlp import Array

MINIMUM_VARIANCE = 1e-2


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
        return float(np.sqrt(max(self.square / self.weight - self.centre**2, MINIMUM_VARIANCE)))

    def updated(self, targets: Array, decay: float) -> "Normaliser":
        """The normaliser after one update with `targets`."""
        return Normaliser(
            decay * self.mean + (1 - decay) * float(targets.mean(dtype=np.float64)),
            decay * self.square + (1 - decay) * float(np.square(targets, dtype=np.float64).mean()),
            decay * self.weight + (1 - decay),
        )

    def normalise(self, values: Array) -> Array:
        """Values in units of the scale."""
        return (values - self.centre) / self.scale

    def denormalise(self, values: Array) -> Array:
        """The inverse of `normalise`."""
        return values * self.scale + self.centre
