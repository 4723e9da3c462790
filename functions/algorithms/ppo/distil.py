"""Teaching one network what others give, on given inputs: supervised steps in closed form.

A policy is taught by the divergence KL(teacher || student), whose only part that depends on the student is the cross
entropy with the teacher's probabilities as soft labels (Rusu et al., "Policy Distillation", ICLR 2016), of choices and
of numbers alike; a critic is taught by squared error. Everything here is pure; a batch has B rows.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from functions.nn.discrete import Branches
from functions.nn.heads import Distribution
from functions.nn.losses import log_softmax, mask_logits
from functions.nn.mlp import Array

# Rows of one step.
ROWS = 512
# What is taught does not move, so lessons bear larger steps than reinforcement learning. Merging six policies of
# simple_spread into two, 200 steps of 7e-4 leave a divergence of 0.15 of 0.45 nats, of 5e-3 0.015; wide layers bear it.
STEP_SIZE = 5e-3


class Taught(NamedTuple):
    """d of a lesson's mean loss by the student's outputs, `grad_output` ``[B, out]``, and by its head's own
    parameters."""

    grad_output: Array
    grad_log_std: Array | None = None


class Lesson(Protocol):
    """What a policy is to give for its rows."""

    def loss(self, outputs: Array, log_std: Array | None, rows: NDArray[np.int64]) -> Taught:
        """The gradient of the divergence for the rows with these numbers."""

    def divergence(self, outputs: Array, log_std: Array | None) -> float:
        """Mean KL(teacher || student) of all rows, in nats."""


def lesson(head: Distribution, outputs: Array, log_std: Array | None, legal: NDArray[np.bool_] | None) -> Lesson:
    """To act as who gives `outputs` ``[rows, width]`` and, where the head has parameters, `log_std` ``[rows, own]``."""
    if log_std is not None:
        return Numbers(outputs, log_std)
    sizes = head.sizes if isinstance(head, Branches) else (head.width,)
    return Choices(sizes, branchwise(outputs, sizes, legal), legal)


@dataclass(frozen=True)
class Choices:
    """Choices as likely as the log-probabilities `taught` ``[rows, actions]`` say, of `sizes` actions each."""

    sizes: tuple[int, ...]
    taught: Array
    legal: NDArray[np.bool_] | None

    @cached_property
    def _probabilities(self) -> Array:
        return np.exp(self.taught)

    def loss(self, outputs: Array, log_std: Array | None, rows: NDArray[np.int64]) -> Taught:
        """See `Lesson`. (p - t) / B: choices are independent, so their divergences add up."""
        found = np.exp(branchwise(outputs, self.sizes, None if self.legal is None else self.legal[rows]))
        found -= self._probabilities[rows]
        found /= len(found)
        return Taught(found)

    def divergence(self, outputs: Array, log_std: Array | None) -> float:
        """See `Lesson`."""
        return divergence(self.taught, branchwise(outputs, self.sizes, self.legal))


@dataclass(frozen=True)
class Numbers:
    """Gaussian numbers with these `means` and `log_std` ``[rows, d]``.

    KL of a row is the sum over d of log(s / t) + (t² + (m - n)²) / (2 s²) - ½ for the student's mean m and standard
    deviation s, and the teacher's n and t.
    """

    means: Array
    log_std: Array

    def loss(self, outputs: Array, log_std: Array | None, rows: NDArray[np.int64]) -> Taught:
        """See `Lesson`."""
        precision = np.exp(-2 * _required(log_std))
        apart = outputs - self.means[rows]
        spread = np.exp(2 * self.log_std[rows]) + apart * apart
        return Taught(apart * precision / len(rows), 1 - precision * spread.mean(axis=0))

    def divergence(self, outputs: Array, log_std: Array | None) -> float:
        """See `Lesson`."""
        log_std, taught = _required(log_std).astype(np.float64), self.log_std.astype(np.float64)
        apart = (outputs - self.means).astype(np.float64)
        spread = (np.exp(2 * taught) + apart * apart) * np.exp(-2 * log_std)
        return float((log_std - taught + (spread - 1) / 2).sum(axis=1).mean())


def row_batches(rows: int, steps: int, rng: np.random.Generator, most: int = ROWS) -> NDArray[np.int64]:
    """The row numbers of every step, ``[steps, min(most, rows)]``: one shuffled pass over all rows after another."""
    size = min(most, rows)
    passes = -(-steps * size // rows)
    order = np.concatenate([np.empty(0, np.int64), *(rng.permutation(rows) for _ in range(passes))])
    return order[: steps * size].reshape(steps, size)


def branchwise(logits: Array, sizes: tuple[int, ...], legal: NDArray[np.bool_] | None) -> Array:
    """`log_probabilities` of choices of `sizes` actions that stand side by side."""
    ends = list(itertools.accumulate(sizes, initial=0))
    parts = [slice(start, end) for start, end in itertools.pairwise(ends)]
    found = [log_probabilities(logits[:, part], None if legal is None else legal[:, part]) for part in parts]
    return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def log_probabilities(logits: Array, legal: NDArray[np.bool_] | None) -> Array:
    """Of logits ``[B, actions]``; what is not `legal` has probability exactly 0 and a finite logarithm."""
    return np.ascontiguousarray(log_softmax(np.ascontiguousarray(mask_logits(logits, legal).T)).T)


def squared_error(values: Array, taught: Array) -> Array:
    """d mean((v - t)² / 2) / d v, ``[B, 1]`` both."""
    grad_output: Array = (values - taught) / values.dtype.type(len(values))
    return grad_output


def divergence(taught: Array, found: Array) -> float:
    """Mean KL(taught || found) in nats, of log-probabilities ``[B, actions]``."""
    log_t, log_p = taught.astype(np.float64), found.astype(np.float64)
    return float((np.exp(log_t) * (log_t - log_p)).sum(axis=1).mean())


def _required(log_std: Array | None) -> Array:
    if log_std is None:
        raise ValueError("a policy without standard deviations cannot be taught those of another")
    return log_std
