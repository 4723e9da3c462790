"""Heads of agents that choose: one choice or several at once, from logits. See `functions.nn.heads`."""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.environments.base import ActionArray, BoolArray, FloatArray

Array = NDArray[Any]
HeadGradient = tuple[Array, Array | None]
"""Derivatives of every row: at the outputs ``[..., width]``, and at a head's own parameters ``[..., own]`` or None."""


@dataclass(frozen=True)
class OneChoice:
    """One of `width` actions, drawn from the softmax of the outputs; `noise` is one uniform number of [0, 1)."""

    width: int
    own: int = 0

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """See `Head`."""
        return rng.random(shape, dtype=np.float32)

    def draw(self, outputs: Array, own: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """See `draw`."""
        return draw(outputs, noise)

    def greedy(self, outputs: Array) -> ActionArray:
        """The first of the highest outputs."""
        return np.asarray(outputs.argmax(axis=-1))

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """As they are."""
        return actions

    def log_probability(self, outputs: Array, own: Array | None, actions: ActionArray) -> Array:
        """See `Distribution`."""
        return np.take_along_axis(log_softmax(outputs), actions[..., None].astype(np.int64), axis=-1)[..., 0]

    def log_probability_gradient(self, outputs: Array, own: Array | None, actions: ActionArray) -> HeadGradient:
        """The chosen action's one-hot less the probabilities."""
        slope = -np.exp(log_softmax(outputs))
        places = actions[..., None].astype(np.int64)
        np.put_along_axis(slope, places, 1 + np.take_along_axis(slope, places, axis=-1), axis=-1)
        return slope, None

    def entropy(self, outputs: Array, own: Array | None) -> Array:
        """-Σ p log p."""
        log_p = log_softmax(outputs)
        return np.asarray(-(np.exp(log_p) * log_p).sum(axis=-1))

    def entropy_gradient(self, outputs: Array, own: Array | None) -> HeadGradient:
        """-p (log p + H)."""
        log_p = log_softmax(outputs)
        p = np.exp(log_p)
        entropy = -(p * log_p).sum(axis=-1, keepdims=True)
        return -p * (log_p + entropy), None


@dataclass(frozen=True)
class Branches:
    """Several choices that are independent given what is seen; `noise` is one uniform number for each."""

    sizes: tuple[int, ...]
    own: int = 0

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
        return tuple(OneChoice(size) for size in self.sizes)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """See `Head`."""
        return rng.random((*shape, len(self.sizes)), dtype=np.float32)

    def draw(self, outputs: Array, own: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """Actions ``[n, E, branches]`` and the sum of their log-probabilities, from outputs ``[n, E, width]``."""
        drawn = [draw(outputs[..., part], noise[..., index]) for index, part in enumerate(self._parts)]
        actions, log_probability = zip(*drawn, strict=True)
        return np.stack(actions, axis=-1), sum(log_probability[1:], start=log_probability[0])

    def greedy(self, outputs: Array) -> ActionArray:
        """The first of the highest outputs of every branch."""
        return np.stack([outputs[..., part].argmax(axis=-1) for part in self._parts], axis=-1)

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """As they are."""
        return actions

    def log_probability(self, outputs: Array, own: Array | None, actions: ActionArray) -> Array:
        """The sum over the branches."""
        parts = enumerate(zip(self._choices, self._parts, strict=True))
        found = [choice.log_probability(outputs[..., part], None, actions[..., i]) for i, (choice, part) in parts]
        return sum(found[1:], start=found[0])

    def log_probability_gradient(self, outputs: Array, own: Array | None, actions: ActionArray) -> HeadGradient:
        """Branch after branch."""
        parts = enumerate(zip(self._choices, self._parts, strict=True))
        slopes = [
            choice.log_probability_gradient(outputs[..., part], None, actions[..., i])[0] for i, (choice, part) in parts
        ]
        return np.concatenate(slopes, axis=-1), None

    def entropy(self, outputs: Array, own: Array | None) -> Array:
        """The sum over the branches."""
        found = [
            choice.entropy(outputs[..., part], None) for choice, part in zip(self._choices, self._parts, strict=True)
        ]
        return sum(found[1:], start=found[0])

    def entropy_gradient(self, outputs: Array, own: Array | None) -> HeadGradient:
        """Branch after branch."""
        slopes = [
            choice.entropy_gradient(outputs[..., part], None)[0]
            for choice, part in zip(self._choices, self._parts, strict=True)
        ]
        return np.concatenate(slopes, axis=-1), None


def draw(logits: FloatArray, uniform: FloatArray) -> tuple[ActionArray, FloatArray]:
    """Actions ``[n, E]`` and their log-probabilities for logits ``[n, E, actions]``, by inverting the distribution
    function at `uniform` ``[n, E]`` in [0, 1).

    Works action by action on whole ``[n, E]`` planes: there are few actions and many rows. An illegal action has
    probability exactly 0 and cannot be drawn, because a float32 below 1 times the total stays below the total.
    """
    planes = np.array(logits.transpose(2, 0, 1), order="C")  # a copy, even of a single row
    planes -= planes.max(axis=0)
    cumulative = np.exp(planes)
    for before, here in itertools.pairwise(cumulative):  # numpy's accumulate is many times slower along this axis
        here += before
    total = cumulative[-1]
    passed = cumulative <= uniform * total
    actions = passed.view(np.int8).sum(axis=0, dtype=np.int16).astype(np.int64)
    places = actions * uniform.size + np.arange(uniform.size).reshape(uniform.shape)
    return actions, planes.reshape(-1).take(places) - np.log(total)


def epsilon_greedy(values: Array, uniform: Array, epsilon: float, legal: BoolArray | None) -> ActionArray:
    """The first of the highest `values` ``[..., actions]``, with probability `epsilon` any legal action instead.

    One uniform number decides both: below `epsilon`, where it lies in [0, `epsilon`) says which.
    """
    actions: ActionArray = values.argmax(axis=-1)
    explores = uniform < epsilon
    share = uniform[explores].astype(np.float64) / epsilon if epsilon else np.empty(0)
    if legal is None:
        actions[explores] = np.minimum(share * values.shape[-1], values.shape[-1] - 1).astype(np.int64)
        return actions
    counts = legal[explores].cumsum(axis=-1)
    chosen = np.minimum((share * counts[:, -1]).astype(np.int64), counts[:, -1] - 1)
    actions[explores] = (counts <= chosen[:, None]).sum(axis=-1)
    return actions


def log_softmax(logits: Array) -> Array:
    """Log-probabilities over the last axis."""
    shifted: Array = logits - logits.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted
