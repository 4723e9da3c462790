"""Discrete and multi-discrete action heads. See `marless.functions.nn.heads`."""

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import ActionArray, BoolArray, FloatArray
from marless.functions.native.arithmetic import NUMPY, Arithmetic

Array = NDArray[Any]
HeadGradient = tuple[Array, Array | None]
"""Derivatives of every row by the outputs ``[..., width]`` and by log_std ``[..., d]`` or None."""


@dataclass(frozen=True)
class OneChoice:
    """One of `width` actions, sampled from the softmax of the outputs. `noise` is one uniform number in [0, 1)."""

    width: int
    log_std_size: int = 0
    arithmetic: Arithmetic = field(default=NUMPY, repr=False)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """See `Head`."""
        return rng.random(shape, dtype=np.float32)

    def draw(self, outputs: Array, log_std: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """See `draw`."""
        return draw(outputs, noise, self.arithmetic)

    def greedy(self, outputs: Array) -> ActionArray:
        """The first of the highest outputs."""
        return np.asarray(outputs.argmax(axis=-1))

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """Unchanged."""
        return actions

    def log_probability(self, outputs: Array, log_std: Array | None, actions: ActionArray) -> Array:
        """See `Distribution`."""
        log_p = log_softmax(outputs, self.arithmetic)
        return np.take_along_axis(log_p, actions[..., None].astype(np.int64), axis=-1)[..., 0]

    def log_probability_gradient(self, outputs: Array, log_std: Array | None, actions: ActionArray) -> HeadGradient:
        """The chosen action's one-hot minus the probabilities."""
        gradient = -self.arithmetic.exp(log_softmax(outputs, self.arithmetic))
        indices = actions[..., None].astype(np.int64)
        np.put_along_axis(gradient, indices, 1 + np.take_along_axis(gradient, indices, axis=-1), axis=-1)
        return gradient, None

    def entropy(self, outputs: Array, log_std: Array | None) -> Array:
        """-Σ p log p."""
        log_p = log_softmax(outputs, self.arithmetic)
        return np.asarray(-(self.arithmetic.exp(log_p) * log_p).sum(axis=-1))

    def entropy_gradient(self, outputs: Array, log_std: Array | None) -> HeadGradient:
        """-p (log p + H)."""
        log_p = log_softmax(outputs, self.arithmetic)
        p = self.arithmetic.exp(log_p)
        entropy = -(p * log_p).sum(axis=-1, keepdims=True)
        return -p * (log_p + entropy), None


@dataclass(frozen=True)
class Branches:
    """Several choices, independent given the observation. `noise` is one uniform number for each."""

    sizes: tuple[int, ...]
    log_std_size: int = 0
    arithmetic: Arithmetic = field(default=NUMPY, repr=False)

    @property
    def width(self) -> int:
        """Logits of all branches."""
        return sum(self.sizes)

    @cached_property
    def _parts(self) -> tuple[slice, ...]:
        ends = itertools.accumulate(self.sizes, initial=0)
        return tuple(slice(start, end) for start, end in itertools.pairwise(ends))

    @cached_property
    def _choices(self) -> tuple[OneChoice, ...]:
        return tuple(OneChoice(size, arithmetic=self.arithmetic) for size in self.sizes)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """See `Head`."""
        return rng.random((*shape, len(self.sizes)), dtype=np.float32)

    def draw(self, outputs: Array, log_std: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """Actions ``[n, E, branches]`` and the sum of their log-probabilities, from outputs ``[n, E, width]``."""
        samples = [
            draw(outputs[..., part], noise[..., index], self.arithmetic) for index, part in enumerate(self._parts)
        ]
        actions, log_probability = zip(*samples, strict=True)
        return np.stack(actions, axis=-1), sum(log_probability[1:], start=log_probability[0])

    def greedy(self, outputs: Array) -> ActionArray:
        """The first of the highest outputs of every branch."""
        return np.stack([outputs[..., part].argmax(axis=-1) for part in self._parts], axis=-1)

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """Unchanged."""
        return actions

    def log_probability(self, outputs: Array, log_std: Array | None, actions: ActionArray) -> Array:
        """The sum over the branches."""
        parts = enumerate(zip(self._choices, self._parts, strict=True))
        log_p = [choice.log_probability(outputs[..., part], None, actions[..., i]) for i, (choice, part) in parts]
        return sum(log_p[1:], start=log_p[0])

    def log_probability_gradient(self, outputs: Array, log_std: Array | None, actions: ActionArray) -> HeadGradient:
        """The branches' gradients side by side."""
        parts = enumerate(zip(self._choices, self._parts, strict=True))
        gradients = [
            choice.log_probability_gradient(outputs[..., part], None, actions[..., i])[0] for i, (choice, part) in parts
        ]
        return np.concatenate(gradients, axis=-1), None

    def entropy(self, outputs: Array, log_std: Array | None) -> Array:
        """The sum over the branches."""
        entropies = [
            choice.entropy(outputs[..., part], None) for choice, part in zip(self._choices, self._parts, strict=True)
        ]
        return sum(entropies[1:], start=entropies[0])

    def entropy_gradient(self, outputs: Array, log_std: Array | None) -> HeadGradient:
        """The branches' gradients side by side."""
        gradients = [
            choice.entropy_gradient(outputs[..., part], None)[0]
            for choice, part in zip(self._choices, self._parts, strict=True)
        ]
        return np.concatenate(gradients, axis=-1), None


def draw(logits: FloatArray, uniform: FloatArray, arithmetic: Arithmetic = NUMPY) -> tuple[ActionArray, FloatArray]:
    """Actions ``[n, E]`` and their log-probabilities for logits ``[n, E, actions]``, by inverse transform sampling with
    `uniform` ``[n, E]`` in [0, 1).

    It works action by action on whole ``[n, E]`` planes, because there are few actions and many rows. An illegal action
    has probability exactly 0 and cannot be drawn, because a float32 below 1 times the total stays below the total.
    """
    planes = np.array(logits.transpose(2, 0, 1), order="C")  # always a copy, since it is changed
    planes -= planes.max(axis=0)
    cumulative = arithmetic.exp(planes)
    for before, here in itertools.pairwise(cumulative):  # numpy's accumulate is many times slower along this axis
        here += before
    total = cumulative[-1]
    is_below = cumulative <= uniform * total
    actions = is_below.view(np.int8).sum(axis=0, dtype=np.int16).astype(np.int64)
    indices = actions * uniform.size + np.arange(uniform.size).reshape(uniform.shape)
    return actions, planes.reshape(-1).take(indices) - arithmetic.log(total)


def epsilon_greedy(values: Array, uniform: Array, epsilon: float, legal: BoolArray | None) -> ActionArray:
    """The greedy action of `values` ``[..., actions]``, or a random legal action with probability `epsilon`.

    One uniform number decides both: if it is below `epsilon`, its position in [0, `epsilon`) picks the action.
    """
    actions: ActionArray = values.argmax(axis=-1)
    explores = uniform < epsilon
    share = uniform[explores].astype(np.float64) / epsilon if epsilon else np.empty(0)
    if legal is None:
        actions[explores] = np.minimum(share * values.shape[-1], values.shape[-1] - 1).astype(np.int64)
        return actions
    counts = legal[explores].cumsum(axis=-1)
    ranks = np.minimum((share * counts[:, -1]).astype(np.int64), counts[:, -1] - 1)
    actions[explores] = (counts <= ranks[:, None]).sum(axis=-1)
    return actions


def log_softmax(logits: Array, arithmetic: Arithmetic = NUMPY, axis: int = -1) -> Array:
    """Log-probabilities over the axis."""
    log_p: Array = logits - logits.max(axis=axis, keepdims=True)
    log_p -= arithmetic.log(arithmetic.exp(log_p).sum(axis=axis, keepdims=True))
    return log_p
