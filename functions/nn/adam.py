"""Adam on one flat vector, with gradient clipping by norm."""

import math
from dataclasses import dataclass

import numpy as np

from marless.functions.errors import NotFinite
from marless.functions.nn.layers import Array

BETA_FIRST, BETA_SECOND = 0.9, 0.999


def finite_norm(norm: float) -> float:
    """Return a gradient's norm. Raises `NotFinite` if it overflows, because clipping then makes every gradient 0, and
    the step changes nothing."""
    if math.isinf(norm):
        raise NotFinite("the norm of a gradient overflows")
    return norm


@dataclass
class Adam:
    """Adam (Kingma and Ba, 2015) with the step rule of PyTorch. Its state is `first`, `second` and `steps`.

    `parameters` is updated in place. Each network has its own optimiser, so gradients are clipped per network.
    """

    parameters: Array
    first: Array
    second: Array
    steps: int
    lr: float
    epsilon: float
    max_grad_norm: float

    def __post_init__(self) -> None:
        self._scratch = np.empty_like(self.parameters)

    def step(self, gradient: Array) -> float:
        """Apply one update and return the gradient's norm before clipping. `gradient` is scaled in place.

        Raises `NotFinite`, see `finite_norm`.
        """
        norm = finite_norm(float(np.sqrt(np.dot(gradient, gradient))))
        if norm > self.max_grad_norm:
            gradient *= self.max_grad_norm / (norm + 1e-6)  # the guard of torch.nn.utils.clip_grad_norm_
        self.steps += 1
        scratch = self._scratch
        self.first *= BETA_FIRST
        np.multiply(gradient, 1 - BETA_FIRST, out=scratch)
        self.first += scratch
        self.second *= BETA_SECOND
        np.multiply(gradient, gradient, out=scratch)
        scratch *= 1 - BETA_SECOND
        self.second += scratch
        np.sqrt(self.second, out=scratch)
        scratch /= float(np.sqrt(1 - BETA_SECOND**self.steps))
        scratch += self.epsilon
        np.divide(self.first, scratch, out=scratch)
        scratch *= self.lr / (1 - BETA_FIRST**self.steps)
        self.parameters -= scratch
        return norm
