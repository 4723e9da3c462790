"""Squashed Gaussian policies whose standard deviations depend on the observation, and the gradient through a sample.

Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018, appendix C. See `functions.nn.heads`.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from functions.environments.base import ActionArray, FloatArray
from functions.nn.continuous import Bounds
from functions.nn.mlp import Array

# The bounds of the log standard deviations, as in the code of Haarnoja et al.
_LEAST, _MOST = -20.0, 2.0
_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


class SquashedSample(NamedTuple):
    """`actions` tanh(mean + std noise) ``[..., d]`` and their log-density ``[...]``, with what the gradient needs:
    `scaled` is std noise, and `free` where a log standard deviation was within its bounds."""

    actions: Array
    log_probability: Array
    scaled: Array
    free: Array

    @classmethod
    def of(cls, outputs: Array, noise: Array) -> Self:
        """Of means and log standard deviations side by side ``[..., 2 d]``, and standard normal noise ``[..., d]``."""
        mean, unbounded = np.split(outputs, 2, axis=-1)
        log_std = np.clip(unbounded, _LEAST, _MOST)
        scaled = np.exp(log_std) * noise
        sample = mean + scaled
        # log(1 - tanh²(u)) without the loss of digits at large u.
        squash = 2 * (math.log(2.0) - sample - np.logaddexp(outputs.dtype.type(0), -2 * sample))
        density = -0.5 * noise * noise - log_std - _HALF_LOG_TAU - squash
        return cls(np.tanh(sample), density.sum(axis=-1), scaled, log_std == unbounded)

    def backward(self, grad_actions: Array, grad_log_probability: Array) -> Array:
        """d loss / d outputs ``[..., 2 d]`` at fixed noise, from d loss / d actions ``[..., d]`` and d loss / d
        log-density ``[...]``."""
        density = grad_log_probability[..., None]
        grad_sample = (1 - self.actions * self.actions) * grad_actions + 2 * self.actions * density
        return np.concatenate([grad_sample, (grad_sample * self.scaled - density) * self.free], axis=-1)


@dataclass(frozen=True)
class SquashedGaussian:
    """The head of these policies: outputs are means and log standard deviations side by side, and actions are recorded
    after tanh, in [-1, 1]."""

    bounds: Bounds
    log_std_size: int = 0

    @property
    def width(self) -> int:
        """A mean and a log standard deviation per dimension."""
        return 2 * len(self.bounds.low)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Standard normal numbers, one per dimension."""
        return rng.standard_normal((*shape, len(self.bounds.low)), dtype=np.float32)

    def draw(self, outputs: Array, log_std: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """See `SquashedSample`."""
        sample = SquashedSample.of(outputs, noise)
        return sample.actions, sample.log_probability

    def greedy(self, outputs: Array) -> ActionArray:
        """tanh of the means."""
        return np.asarray(np.tanh(np.split(outputs, 2, axis=-1)[0]))

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """Rescaled to the bounds."""
        return self.bounds.rescale(actions)
