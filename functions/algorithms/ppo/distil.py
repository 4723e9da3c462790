"""Distillation of one network from others on given inputs, in closed form.

Policies minimise KL(teacher || student), up to a constant the cross entropy with the teacher's probabilities (Rusu et
al., "Policy Distillation", ICLR 2016). Actions may be discrete or continuous. Critics minimise the squared error.
Everything here is pure. A batch has B rows.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.nn.discrete import Branches, log_softmax
from marless.functions.nn.heads import Distribution
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits

# Rows of one step.
ROWS = 512
# Distillation targets are fixed, so it is stable with larger steps than reinforcement learning, for wide layers too.
# Merging six policies of simple_spread into two, 200 steps reduce 0.45 nats to 0.15 with 7e-4, to 0.015 with 5e-3.
STEP_SIZE = 5e-3


class DistilLoss(NamedTuple):
    """Gradients of the mean loss by the student's outputs ``[B, out]`` and by its log_std ``[out]``."""

    grad_output: Array
    grad_log_std: Array | None = None


class DistilTarget(Protocol):
    """The action distributions of a teacher for some rows."""

    def loss(self, outputs: Array, log_std: Array | None, rows: NDArray[np.int64]) -> DistilLoss:
        """The gradient of the divergence for the rows with these indices."""

    def divergence(self, outputs: Array, log_std: Array | None) -> float:
        """Mean KL(teacher || student) of all rows, in nats."""


def distil_target(
    head: Distribution, outputs: Array, log_std: Array | None, legal: NDArray[np.bool_] | None
) -> DistilTarget:
    """The teacher with `outputs` ``[rows, width]`` and, for Gaussian heads, `log_std` ``[rows, d]``."""
    if log_std is not None:
        return GaussianTarget(outputs, log_std)
    sizes = head.sizes if isinstance(head, Branches) else (head.width,)
    return ChoiceTarget(sizes, branchwise(outputs, sizes, legal), legal)


@dataclass(frozen=True)
class ChoiceTarget(DistilTarget):
    """Discrete choices of `sizes` actions each, with the teacher's log-probabilities ``[rows, actions]``."""

    sizes: tuple[int, ...]
    teacher: Array
    legal: NDArray[np.bool_] | None

    @cached_property
    def _probabilities(self) -> Array:
        return np.exp(self.teacher)

    def loss(self, outputs: Array, log_std: Array | None, rows: NDArray[np.int64]) -> DistilLoss:
        # (p - t) / B: choices are independent, so their divergences add up.
        gradient = np.exp(branchwise(outputs, self.sizes, None if self.legal is None else self.legal[rows]))
        gradient -= self._probabilities[rows]
        gradient /= len(gradient)
        return DistilLoss(gradient)

    def divergence(self, outputs: Array, log_std: Array | None) -> float:
        return divergence(self.teacher, branchwise(outputs, self.sizes, self.legal))


@dataclass(frozen=True)
class GaussianTarget(DistilTarget):
    """Gaussian actions with the teacher's `means` and `log_std` ``[rows, d]``.

    KL of a row is the sum over d of log(s / t) + (t² + (m - n)²) / (2 s²) - ½. The student has mean m and standard
    deviation s, the teacher n and t.
    """

    means: Array
    log_std: Array

    def loss(self, outputs: Array, log_std: Array | None, rows: NDArray[np.int64]) -> DistilLoss:
        precision = np.exp(-2 * _require(log_std))
        apart = outputs - self.means[rows]
        spread = np.exp(2 * self.log_std[rows]) + apart * apart
        return DistilLoss(apart * precision / len(rows), 1 - precision * spread.mean(axis=0))

    def divergence(self, outputs: Array, log_std: Array | None) -> float:
        log_std, teacher = _require(log_std).astype(np.float64), self.log_std.astype(np.float64)
        apart = (outputs - self.means).astype(np.float64)
        spread = (np.exp(2 * teacher) + apart * apart) * np.exp(-2 * log_std)
        return float((log_std - teacher + (spread - 1) / 2).sum(axis=1).mean())


def row_batches(rows: int, steps: int, rng: np.random.Generator, most: int = ROWS) -> NDArray[np.int64]:
    """The row indices of every step ``[steps, min(most, rows)]``, from successive shuffled passes over all rows."""
    size = min(most, rows)
    passes = -(-steps * size // rows)
    order = np.concatenate([np.empty(0, np.int64), *(rng.permutation(rows) for _ in range(passes))])
    return order[: steps * size].reshape(steps, size)


def branchwise(logits: Array, sizes: tuple[int, ...], legal: NDArray[np.bool_] | None) -> Array:
    """`log_probabilities` of several choices of `sizes` actions side by side."""
    ends = list(itertools.accumulate(sizes, initial=0))
    parts = [slice(start, end) for start, end in itertools.pairwise(ends)]
    log_p = [log_probabilities(logits[:, part], None if legal is None else legal[:, part]) for part in parts]
    return log_p[0] if len(log_p) == 1 else np.concatenate(log_p, axis=1)


def log_probabilities(logits: Array, legal: NDArray[np.bool_] | None) -> Array:
    """Log-probabilities of logits ``[B, actions]``. Illegal actions have probability 0 and a finite logarithm."""
    return np.ascontiguousarray(log_softmax(np.ascontiguousarray(mask_logits(logits, legal).T), axis=0).T)


def squared_error(values: Array, teacher: Array) -> Array:
    """d mean((v - t)² / 2) / d v, ``[B, 1]`` both."""
    return np.asarray((values - teacher) / values.dtype.type(len(values)))


def divergence(teacher: Array, student: Array) -> float:
    """Mean KL(teacher || student) in nats, of log-probabilities ``[B, actions]``."""
    log_t, log_p = teacher.astype(np.float64), student.astype(np.float64)
    return float((np.exp(log_t) * (log_t - log_p)).sum(axis=1).mean())


def _require(log_std: Array | None) -> Array:
    if log_std is None:
        raise ValueError("a policy without standard deviations cannot be taught those of another")
    return log_std
