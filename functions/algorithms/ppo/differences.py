"""The Hessian of any network's loss as a product with vectors, by differences of its gradient in double precision.

`curvature.Hessian` differentiates the gradient's own computation, which is exact and made for perceptrons with one
choice. Here nothing is asked of network and loss but their gradient; a central difference of it is wrong by the square
of the step and by the rounding of double precision over the step, together about 1e-10 of the product.
"""

import numpy as np

from functions.algorithms.chunks import Part
from functions.algorithms.trainable import L, LossGradient, LossOf
from functions.nn.mlp import Array
from functions.nn.recurrent import Network

# Near the cube root of the precision, as shares of the parameters' length: where both errors are alike.
STEP = 1e-5


class Differences:
    """The Hessian of a minibatch's mean loss by the flat parameters of a network."""

    def __init__(self, network: Network, flat: Array, part: Part, loss_of: LossOf[L]) -> None:
        self._centre = flat.astype(np.float64)
        self._at = self._centre.copy()
        self._slope = LossGradient(network, self._at)
        first = None if part.first is None else part.first.astype(np.float64)
        self._part, self._loss_of = part._replace(inputs=part.inputs.astype(np.float64), first=first), loss_of

    def start(self, rng: np.random.Generator) -> Array:
        """A direction ``[parameters]`` in which there is curvature: what the Hessian makes of a random one."""
        return self.times(rng.standard_normal(len(self._centre)))

    def times(self, vector: Array) -> Array:
        """The product ``[parameters]`` with a direction ``[parameters]`` that is not zero."""
        step = STEP * (1 + np.linalg.norm(self._centre)) / np.linalg.norm(vector)
        difference = self._gradient(self._centre + step * vector)
        difference -= self._gradient(self._centre - step * vector)
        difference /= 2 * step
        return difference

    def _gradient(self, parameters: Array) -> Array:
        self._at[...] = parameters
        return self._slope.of(self._part, self._loss_of)[1].copy()
