"""Heads of agents that act in numbers, with a Gaussian or without a distribution. See `functions.nn.heads`."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.environments.base import ActionArray, FloatArray
from functions.nn.discrete import HeadGradient

Array = NDArray[Any]

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Bounds:
    """What numbers of [-1, 1] stand for."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def stretch(self, squashed: Array) -> FloatArray:
        """``[..., d]`` float32, -1 at `low` and 1 at `high`; never beyond, whatever rounding does."""
        low, high = (np.asarray(bound, np.float32) for bound in (self.low, self.high))
        share = 0.5 * (squashed.astype(np.float32) + np.float32(1))
        # Not low + share * (high - low): the distance of two finite bounds need not be finite.
        return np.clip((1 - share) * low + share * high, low, high)


@dataclass(frozen=True)
class Gaussian:
    """Numbers from independent Gaussians: outputs are means, own parameters log standard deviations ``[..., d]``;
    `noise` is one standard normal number for each. The environment gets a number's tanh or, where `clipped`, the number
    cut off at -1 and 1 (as in "Stable-Baselines3"); what was drawn is what is learned from either way."""

    bounds: Bounds
    clipped: bool = False

    @property
    def width(self) -> int:
        """One mean for every number."""
        return len(self.bounds.low)

    @property
    def own(self) -> int:
        """One log standard deviation for every number."""
        return len(self.bounds.low)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """See `Head`."""
        return rng.standard_normal((*shape, self.width), dtype=np.float32)

    def draw(self, outputs: Array, own: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """mean + exp(own) noise."""
        actions = outputs + np.exp(_given(own)) * noise
        return actions, self.log_probability(outputs, own, actions)

    def greedy(self, outputs: Array) -> ActionArray:
        """The means."""
        return outputs

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """Brought into [-1, 1], then stretched to the bounds."""
        return self.bounds.stretch(self.within(actions))

    def within(self, actions: ActionArray) -> Array:
        """What was drawn, in [-1, 1]."""
        return np.clip(actions, -1, 1) if self.clipped else np.tanh(actions)

    def log_probability(self, outputs: Array, own: Array | None, actions: ActionArray) -> Array:
        """The sum over the numbers."""
        log_std = _given(own)
        distance = (actions - outputs) * np.exp(-log_std)
        return np.asarray((-0.5 * distance * distance - log_std - _HALF_LOG_TAU).sum(axis=-1))

    def log_probability_gradient(self, outputs: Array, own: Array | None, actions: ActionArray) -> HeadGradient:
        """(a - mean) / std² and ((a - mean) / std)² - 1."""
        scale = np.exp(-_given(own))
        distance = (actions - outputs) * scale
        return distance * scale, distance * distance - 1

    def entropy(self, outputs: Array, own: Array | None) -> Array:
        """Σ (own + ½ log 2πe), whatever the means are."""
        found = (_given(own) + (_HALF_LOG_TAU + 0.5)).sum(axis=-1)
        return np.broadcast_to(found, outputs.shape[:-1]).astype(outputs.dtype)

    def entropy_gradient(self, outputs: Array, own: Array | None) -> HeadGradient:
        """0 and 1."""
        return np.zeros_like(outputs), np.ones_like(outputs)


@dataclass(frozen=True)
class Deterministic:
    """The numbers tanh(outputs); it has no distribution and draws what it always gives."""

    bounds: Bounds
    own: int = 0

    @property
    def width(self) -> int:
        """One output for every number."""
        return len(self.bounds.low)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Standard normal numbers, for `noisy`."""
        return rng.standard_normal((*shape, self.width), dtype=np.float32)

    def draw(self, outputs: Array, own: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """What `greedy` gives."""
        return self.greedy(outputs), None

    def greedy(self, outputs: Array) -> ActionArray:
        """Numbers of [-1, 1]."""
        return np.asarray(np.tanh(outputs))

    def greedy_gradient(self, actions: Array, grad_output: Array) -> Array:
        """d loss / d outputs, given what `greedy` gave and `grad_output` = d loss / d actions."""
        return (1 - actions * actions) * grad_output

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """Stretched to the bounds."""
        return self.bounds.stretch(actions)


def noisy(actions: Array, normal: Array, amount: float) -> Array:
    """Numbers of [-1, 1] with Gaussian noise of standard deviation `amount`, cut off at the ends."""
    return np.clip(actions + amount * normal, -1, 1)


def _given(own: Array | None) -> Array:
    if own is None:
        raise ValueError("a Gaussian needs its log standard deviations")
    return own
