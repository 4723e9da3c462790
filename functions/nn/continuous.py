"""Continuous action heads: deterministic ones, and Gaussians with learned deviations, of the observation or not.

See `marless.functions.nn.heads`.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import ActionArray, FloatArray
from marless.functions.native.arithmetic import NUMPY, Arithmetic
from marless.functions.nn.discrete import HeadGradient

Array = NDArray[Any]

_HALF_LOG_TAU = 0.9189385332046727
# The bounds of the log standard deviations, from the code of Haarnoja et al.
_LEAST, _MOST = -20.0, 2.0


@dataclass(frozen=True)
class Bounds:
    """The bounds of continuous actions, which policies output in [-1, 1]."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def rescale(self, unit_values: Array) -> FloatArray:
        """Maps [-1, 1] to the bounds, ``[..., d]`` float32. Results stay within the bounds despite rounding."""
        low, high = (np.asarray(bound, np.float32) for bound in (self.low, self.high))
        share = 0.5 * (unit_values.astype(np.float32) + np.float32(1))
        # Not low + share * (high - low): the difference of two finite bounds may overflow.
        return np.clip((1 - share) * low + share * high, low, high)


@dataclass(frozen=True)
class _Bounded:
    bounds: Bounds

    @property
    def width(self) -> int:
        """One output per dimension."""
        return len(self.bounds.low)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Standard normal numbers, one per dimension."""
        return rng.standard_normal((*shape, len(self.bounds.low)), dtype=np.float32)

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """Rescaled to the bounds."""
        return self.bounds.rescale(actions)


@dataclass(frozen=True)
class Gaussian(_Bounded):
    """Independent Gaussians with the outputs as means and log standard deviations ``[..., d]``. `noise` is one standard
    normal number for each. The environment gets the sample's tanh or, if `clips_actions`, the sample clipped to [-1, 1]
    (like Stable-Baselines3). Learning uses the sample itself in both cases."""

    clips_actions: bool = False
    arithmetic: Arithmetic = field(default=NUMPY, repr=False)

    @property
    def log_std_size(self) -> int:
        """One log standard deviation per dimension."""
        return len(self.bounds.low)

    def draw(self, outputs: Array, log_std: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """mean + exp(log_std) noise."""
        actions = outputs + self.arithmetic.exp(_require(log_std)) * noise
        return actions, self.log_probability(outputs, log_std, actions)

    def greedy(self, outputs: Array) -> ActionArray:
        """The means."""
        return outputs

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """Squashed or clipped into [-1, 1], then rescaled to the bounds."""
        return self.bounds.rescale(self.within(actions))

    def within(self, actions: ActionArray) -> Array:
        """The samples, squashed or clipped into [-1, 1]."""
        return np.clip(actions, -1, 1) if self.clips_actions else np.tanh(actions)

    def log_probability(self, outputs: Array, log_std: Array | None, actions: ActionArray) -> Array:
        """The sum over the dimensions."""
        log_std = _require(log_std)
        distance = (actions - outputs) * self.arithmetic.exp(-log_std)
        return np.asarray((-0.5 * distance * distance - log_std - _HALF_LOG_TAU).sum(axis=-1))

    def log_probability_gradient(self, outputs: Array, log_std: Array | None, actions: ActionArray) -> HeadGradient:
        """(a - mean) / std² and ((a - mean) / std)² - 1."""
        scale = self.arithmetic.exp(-_require(log_std))
        distance = (actions - outputs) * scale
        return distance * scale, distance * distance - 1

    def entropy(self, outputs: Array, log_std: Array | None) -> Array:
        """Σ (log_std + ½ log 2πe), for any means."""
        entropy = (_require(log_std) + (_HALF_LOG_TAU + 0.5)).sum(axis=-1)
        return np.broadcast_to(entropy, outputs.shape[:-1]).astype(outputs.dtype)

    def entropy_gradient(self, outputs: Array, log_std: Array | None) -> HeadGradient:
        """0 and 1."""
        return np.zeros_like(outputs), np.ones_like(outputs)


@dataclass(frozen=True)
class Deterministic(_Bounded):
    """The actions tanh(outputs), without a distribution. Noise is for `noisy`."""

    log_std_size: int = 0

    def draw(self, outputs: Array, log_std: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """The actions of `greedy`."""
        return self.greedy(outputs), None

    def greedy(self, outputs: Array) -> ActionArray:
        """tanh(outputs)."""
        return np.asarray(np.tanh(outputs))

    def greedy_gradient(self, actions: Array, grad_output: Array) -> Array:
        """d loss / d outputs from the actions of `greedy` and `grad_output` = d loss / d actions."""
        return (1 - actions * actions) * grad_output


def noisy(actions: Array, normal: Array, amount: float) -> Array:
    """Actions in [-1, 1] with Gaussian noise of standard deviation `amount`, clipped to [-1, 1]."""
    return np.clip(actions + amount * normal, -1, 1)


def _require(log_std: Array | None) -> Array:
    if log_std is None:
        raise ValueError("a Gaussian needs its log standard deviations")
    return log_std


class SquashedSample(NamedTuple):
    """A sample of a `SquashedGaussian`, and the gradient through it (Haarnoja et al., "Soft Actor-Critic Algorithms and
    Applications", 2018, appendix C).

    `actions` are tanh(mean + std noise) ``[..., d]`` with their log-density ``[...]``. For the gradient, `scaled_noise`
    is std noise, and `free` marks log standard deviations within their bounds."""

    actions: Array
    log_probability: Array
    scaled_noise: Array
    free: Array

    @classmethod
    def of(cls, outputs: Array, noise: Array) -> Self:
        """Of means and log standard deviations side by side ``[..., 2 d]``, and standard normal noise ``[..., d]``."""
        mean, raw_log_std = np.split(outputs, 2, axis=-1)
        log_std = np.clip(raw_log_std, _LEAST, _MOST)
        scaled_noise = np.exp(log_std) * noise
        sample = mean + scaled_noise
        # log(1 - tanh²(u)) without the loss of digits at large u.
        squash = 2 * (math.log(2.0) - sample - np.logaddexp(outputs.dtype.type(0), -2 * sample))
        density = -0.5 * noise * noise - log_std - _HALF_LOG_TAU - squash
        return cls(np.tanh(sample), density.sum(axis=-1), scaled_noise, log_std == raw_log_std)

    def backward(self, grad_actions: Array, grad_log_probability: Array) -> Array:
        """d loss / d outputs ``[..., 2 d]`` at fixed noise, from d loss / d actions ``[..., d]`` and d loss / d
        log-density ``[...]``."""
        density = grad_log_probability[..., None]
        grad_sample = (1 - self.actions * self.actions) * grad_actions + 2 * self.actions * density
        return np.concatenate([grad_sample, (grad_sample * self.scaled_noise - density) * self.free], axis=-1)


@dataclass(frozen=True)
class SquashedGaussian(_Bounded):
    """The head of these policies: outputs are means and log standard deviations side by side, and actions are recorded
    after tanh, in [-1, 1]."""

    log_std_size: int = 0

    @property
    def width(self) -> int:
        """A mean and a log standard deviation per dimension."""
        return 2 * len(self.bounds.low)

    def draw(self, outputs: Array, log_std: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """See `SquashedSample`."""
        sample = SquashedSample.of(outputs, noise)
        return sample.actions, sample.log_probability

    def greedy(self, outputs: Array) -> ActionArray:
        """tanh of the means."""
        return np.asarray(np.tanh(np.split(outputs, 2, axis=-1)[0]))
