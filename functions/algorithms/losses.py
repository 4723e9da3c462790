"""Losses of the PPO family as their gradients at the network's output, in closed form.

Every function is pure; a batch has B rows. The figures they return describe the batch before the step.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.networks import Array

# Far below any logit, yet exp(ILLEGAL - max) is exactly 0 and 0 * log-probability stays finite in float32.
ILLEGAL = -1e9


class PolicyLoss(NamedTuple):
    """`error` is d loss / d logits ``[B, actions]``; the rest are batch means."""

    error: Array
    surrogate: float
    entropy: float
    clip_fraction: float
    kl: float


def log_softmax(logits: Array) -> Array:
    """Row-wise log-probabilities."""
    shifted: Array = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def clipped_policy_loss(
    logits: Array,
    actions: NDArray[np.integer],
    old_log_probability: Array,
    advantage: Array,
    clip: float,
    entropy_weight: float,
    legal: NDArray[np.bool_] | None = None,
) -> PolicyLoss:
    """Gradient of -mean(min(r A, clip(r) A)) - entropy_weight * mean(H) with r = exp(log p - old log p).

    Clipped surrogate of PPO (Schulman et al., 2017, eq. 7). `logits` ``[B, actions]``, the others ``[B]``; `legal`
    ``[B, actions]`` masks actions out of the distribution.
    """
    rows = np.arange(len(actions))
    if legal is not None:
        logits = np.where(legal, logits, logits.dtype.type(ILLEGAL))
    log_p = log_softmax(logits)
    p = np.exp(log_p)
    entropy = -(p * log_p).sum(axis=1)
    log_ratio = log_p[rows, actions] - old_log_probability
    ratio = np.exp(log_ratio)
    # The minimum picks the clipped, constant branch exactly when the step would overshoot in the advantage's direction.
    overshoots = np.where(advantage >= 0, ratio > 1 + clip, ratio < 1 - clip)
    weight = np.where(overshoots, ratio.dtype.type(0), -advantage * ratio)
    error = log_p + entropy[:, None]
    error *= entropy_weight
    error -= weight[:, None]
    error *= p
    error[rows, actions] += weight
    error /= len(actions)
    clipped = np.clip(ratio, 1 - clip, 1 + clip)
    return PolicyLoss(
        error,
        float(-np.minimum(ratio * advantage, clipped * advantage).mean()),
        float(entropy.mean()),
        float(np.mean(np.abs(ratio - 1) > clip)),
        float(np.mean(ratio - 1 - log_ratio)),  # Schulman's low-variance estimator of KL(old, new)
    )


class ValueLoss(NamedTuple):
    """`error` is d loss / d value ``[B, 1]``; `loss` the batch mean."""

    error: Array
    loss: float


def huber(difference: Array, delta: float) -> Array:
    """½d² where |d| <= delta, else delta (|d| - ½ delta)."""
    size = np.abs(difference)
    return np.where(size <= delta, 0.5 * difference * difference, delta * (size - 0.5 * delta))


def clipped_value_loss(values: Array, old_values: Array, targets: Array, clip: float, delta: float) -> ValueLoss:
    """Gradient of mean(max(huber(v - t), huber(clip(v) - t))), v kept within `clip` of the old value in the second.

    The value loss of MAPPO (Yu et al., 2022). All arrays ``[B]``, in units of the value normaliser.
    """
    moved = values - old_values
    kept = np.clip(moved, -clip, clip)
    free, held = values - targets, old_values + kept - targets
    free_loss, held_loss = huber(free, delta), huber(held, delta)
    inside = np.abs(moved) <= clip
    error = np.where(
        free_loss >= held_loss, np.clip(free, -delta, delta), np.where(inside, np.clip(held, -delta, delta), 0.0)
    )
    error = error.astype(values.dtype, copy=False)
    error /= len(values)
    return ValueLoss(error[:, None], float(np.maximum(free_loss, held_loss).mean()))
