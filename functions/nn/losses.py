"""Losses of the PPO family and their gradients at the network's outputs, in closed form.

Every function is pure. A batch has B rows. Losses compute their metrics only when they are read, because most optimiser
steps are never reported.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marless.functions.nn.discrete import OneChoice, log_softmax
from marless.functions.nn.heads import Distribution
from marless.functions.nn.layers import Array

# Far below any logit, yet exp(ILLEGAL - max) is exactly 0 and 0 * log-probability stays finite in float32.
ILLEGAL = -1e9
# The names of `PolicyLoss.rows`.
ROW_METRICS = ("entropy", "clip_fraction", "kl")


def mask_logits(logits: Array, legal: NDArray[np.bool_] | None) -> Array:
    """The logits with `ILLEGAL` at illegal actions, which are then never chosen. Both are ``[..., actions]``."""
    return logits if legal is None else np.where(legal, logits, logits.dtype.type(ILLEGAL))


@dataclass(frozen=True)
class ClippedPolicyLoss:
    """The policy loss of B rows: `actions` ``[B]`` or ``[B, ...]`` as the `head` samples them, `legal` ``[B, width]``
    or None, others ``[B]``."""

    head: Distribution
    actions: Array
    log_probability: Array
    advantage: Array
    legal: NDArray[np.bool_] | None
    clip: float
    entropy_weight: float

    def __call__(self, outputs: Array, log_std: Array | None, rows: NDArray[np.int64]) -> "PolicyLoss":
        """The loss of the rows with the indices `rows`, from the network's `outputs` for them."""
        legal = None if self.legal is None else self.legal[rows]
        minibatch = self.actions[rows], self.log_probability[rows], self.advantage[rows], self.clip, self.entropy_weight
        if isinstance(self.head, OneChoice):
            return clipped_policy_loss(outputs, *minibatch, legal)
        return clipped_head_loss(self.head, mask_logits(outputs, legal), log_std, *minibatch)


@dataclass(frozen=True)
class ClippedValueLoss:
    """The value loss of B rows: `old_values` and `targets` ``[B]``, see `clipped_value_loss`."""

    old_values: Array
    targets: Array
    clip: float
    delta: float

    def __call__(self, outputs: Array, log_std: Array | None, rows: NDArray[np.int64]) -> "ValueLoss":
        """The loss of the rows with the indices `rows`, from the network's `outputs` ``[., 1]`` for them."""
        return clipped_value_loss(outputs[:, 0], self.old_values[rows], self.targets[rows], self.clip, self.delta)


@dataclass(frozen=True)
class PolicyLoss:
    """`grad_output` is d loss / d outputs ``[B, width]``, `grad_log_std` d loss / d log_std ``[d]`` for Gaussian heads.
    The properties describe the batch before the step."""

    grad_output: Array
    _log_ratio: Array
    _ratio: Array
    _advantage: Array
    _negative_entropy: Array
    _clip: float
    grad_log_std: Array | None = None

    @property
    def surrogate(self) -> float:
        """-mean(min(r A, clip(r) A))."""
        clipped_ratio = np.clip(self._ratio, 1 - self._clip, 1 + self._clip)
        return float(-np.minimum(self._ratio * self._advantage, clipped_ratio * self._advantage).mean())

    @property
    def rows(self) -> dict[str, Array]:
        """Metrics of each row ``[B]``, to be averaged.

        `entropy` is in nats. `clip_fraction` is true if the ratio left the clip range. `kl` is KL(old, new) by the
        low-variance estimator r - 1 - log r (Schulman, "Approximating KL Divergence").
        """
        return {
            "entropy": -self._negative_entropy,
            "clip_fraction": np.abs(self._ratio - 1) > self._clip,
            "kl": self._ratio - 1 - self._log_ratio,
        }


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

    Clipped surrogate of PPO (Schulman et al., 2017, eq. 7). `logits` ``[B, actions]``, the others ``[B]``. `legal`
    ``[B, actions]`` masks actions out of the distribution.
    """
    # [actions, B]: few actions, long rows.
    log_p = log_softmax(np.ascontiguousarray(mask_logits(logits, legal).T), axis=0)
    # Positions in the flat array are faster than two arrays of indices. int64, since actions may be narrow.
    indices = np.multiply(actions, len(actions), dtype=np.int64)
    indices += np.arange(len(actions))
    p = np.exp(log_p)
    negative_entropy = np.add.reduce(p * log_p, axis=0)
    log_ratio = log_p.take(indices) - old_log_probability
    ratio = np.exp(log_ratio)
    weight = _weight(ratio, advantage, clip)
    grad_output = ((log_p - negative_entropy) * entropy_weight - weight) * p
    grad_output.reshape(-1)[indices] += weight
    grad_output /= len(actions)
    return PolicyLoss(np.ascontiguousarray(grad_output.T), log_ratio, ratio, advantage, negative_entropy, clip)


def clipped_head_loss(
    head: Distribution,
    outputs: Array,
    log_std: Array | None,
    actions: Array,
    old_log_probability: Array,
    advantage: Array,
    clip: float,
    entropy_weight: float,
) -> PolicyLoss:
    """`clipped_policy_loss` for any head: masked `outputs` ``[B, width]``, `log_std` ``[d]`` or None, `actions` ``[B]``
    or ``[B, ...]``, the others ``[B]``.

    Continuous actions are the samples before squashing or clipping: see `marless.functions.nn.heads`.
    """
    log_ratio = head.log_probability(outputs, log_std, actions) - old_log_probability
    ratio = head.arithmetic.exp(log_ratio)
    weight = (_weight(ratio, advantage, clip) / len(ratio))[:, None]
    share = entropy_weight / len(ratio)
    by_outputs, by_log_std = head.log_probability_gradient(outputs, log_std, actions)
    bonus, log_std_bonus = head.entropy_gradient(outputs, log_std)
    grad_log_std = None
    if by_log_std is not None and log_std_bonus is not None:
        grad_log_std = np.add.reduce(weight * by_log_std - share * log_std_bonus, axis=0)
    grad_output, entropy = weight * by_outputs - share * bonus, head.entropy(outputs, log_std)
    return PolicyLoss(grad_output, log_ratio, ratio, advantage, -entropy, clip, grad_log_std)


def _weight(ratio: Array, advantage: Array, clip: float) -> Array:
    """d -min(r A, clip(r) A) / d log r ``[B]``."""
    # The minimum picks the clipped, constant branch exactly when the step would overshoot in the advantage's direction.
    overshoots = np.where(advantage >= 0, ratio > 1 + clip, ratio < 1 - clip)
    weight = -(advantage * ratio)
    weight[overshoots] = 0
    return weight


@dataclass(frozen=True)
class ValueLoss:
    """`grad_output` is d loss / d value ``[B, 1]``. `loss` is the batch mean before the step."""

    grad_output: Array
    _free: Array
    _clipped_error: Array
    _delta: float
    grad_log_std: None = None

    @property
    def loss(self) -> float:
        """Mean over the batch."""
        return float(np.maximum(huber(self._free, self._delta), huber(self._clipped_error, self._delta)).mean())


def huber(difference: Array, delta: float) -> Array:
    """½d² where |d| <= delta, else delta (|d| - ½ delta)."""
    clipped_difference = _clip(difference, delta)
    return clipped_difference * (difference - 0.5 * clipped_difference)


def _clip(values: Array, most: float) -> Array:
    """The values cut off at ±`most`. For a minibatch, `np.clip` takes several times as long."""
    return np.asarray(np.maximum(np.minimum(values, most), -most))


def clipped_value_loss(values: Array, old_values: Array, targets: Array, clip: float, delta: float) -> ValueLoss:
    """Gradient of mean(max(huber(v - t), huber(clip(v) - t))), v kept within `clip` of the old value in the second.

    The value loss of MAPPO (Yu et al., 2022). All arrays ``[B]``, in units of the value normaliser.
    """
    change = values - old_values
    clipped_change = _clip(change, clip)
    free, clipped_error = values - targets, old_values + clipped_change - targets
    # Huber's loss grows with the distance. Where the clipped branch is the larger and the clip binds, its value does
    # not depend on v.
    flat = (np.abs(free) < np.abs(clipped_error)) & (clipped_change != change)
    grad_output = _clip(free, delta)
    grad_output[flat] = 0
    grad_output /= len(values)
    return ValueLoss(grad_output[:, None], free, clipped_error, delta)
