"""Teaching one network what others give, on given inputs: supervised steps in closed form.

A policy is taught by the divergence KL(teacher || student), whose only part that depends on the student is the cross
entropy with the teacher's probabilities as soft labels (Rusu et al., "Policy Distillation", ICLR 2016); a critic is
taught by squared error. Everything here is pure; a batch has B rows.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.losses import ILLEGAL, log_softmax
from functions.algorithms.networks import Array, Mlp, backward, forward
from functions.algorithms.optimiser import Adam

# Rows of one step.
ROWS = 512
# What is taught does not move, so lessons bear larger steps than reinforcement learning. Merging six policies of
# simple_spread into two, 200 steps of 7e-4 leave a divergence of 0.15 of 0.45 nats, of 5e-3 0.015; wide layers bear it.
STEP_SIZE = 5e-3

Error = Callable[[Array, NDArray[np.int64]], Array]
"""The student's outputs and the numbers of their rows to d loss / d outputs."""


def row_batches(rows: int, steps: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The row numbers of every step, ``[steps, min(ROWS, rows)]``: one shuffled pass over all rows after another."""
    size = min(ROWS, rows)
    passes = -(-steps * size // rows)
    order = np.concatenate([np.empty(0, np.int64), *(rng.permutation(rows) for _ in range(passes))])
    return order[: steps * size].reshape(steps, size)


def teach(mlp: Mlp, optimiser: Adam, inputs: Array, batches: NDArray[np.int64], error: Error) -> None:
    """One step of `optimiser`, which holds the student's parameters, per row of `batches`."""
    gradient = np.zeros_like(optimiser.parameters)
    layers, gradient_layers = mlp.layers(optimiser.parameters), mlp.layers(gradient)
    for rows in batches:
        activations = forward(layers, np.take(inputs, rows, axis=0))
        backward(layers, activations, error(activations[-1], rows), gradient_layers)
        optimiser.step(gradient)


def log_probabilities(logits: Array, legal: NDArray[np.bool_] | None) -> Array:
    """Of logits ``[B, actions]``; what is not `legal` has probability exactly 0 and a finite logarithm."""
    if legal is not None:
        logits = np.where(legal, logits, logits.dtype.type(ILLEGAL))
    return np.ascontiguousarray(log_softmax(np.ascontiguousarray(logits.T)).T)


def imitation_error(logits: Array, taught: Array, legal: NDArray[np.bool_] | None) -> Array:
    """d mean(KL(taught || softmax(logits))) / d logits ``[B, actions]`` for the probabilities `taught`: (p - t) / B."""
    error: Array = np.exp(log_probabilities(logits, legal)) - taught
    error /= len(error)
    return error


def squared_error(values: Array, taught: Array) -> Array:
    """d mean((v - t)² / 2) / d v, ``[B, 1]`` both."""
    error: Array = (values - taught) / values.dtype.type(len(values))
    return error


def divergence(taught: Array, found: Array) -> float:
    """Mean KL(taught || found) in nats, of log-probabilities ``[B, actions]``."""
    log_t, log_p = taught.astype(np.float64), found.astype(np.float64)
    return float((np.exp(log_t) * (log_t - log_p)).sum(axis=1).mean())
