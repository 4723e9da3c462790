"""Group-relative policy optimisation for roles: advantages, and the step along sums over parts of a round.

The method is GRPO (Shao et al., "DeepSeekMath", 2024) with groups by role and turn, like AT-GRPO (Zhao et al.,
"Stronger together", 2025) and Dr. MAS (Feng et al., 2026). A reply is compared with the replies of its role to the same
turn, in episodes that began alike. Only episodes that asked the role count. Later turns of such a group have several
prompts. AT-GRPO samples several replies to one prompt there: that is another estimator.

Like in Dr. GRPO (Liu et al., "Understanding R1-Zero-like training", 2025) the sum over tokens is divided by the number
of tokens that the replies could have had. So a token has the same weight at every position. The clip has a separate
upper bound (DAPO, Yu et al., 2025).

    loss = -1 / (n R) Σ m [min(r A, clip(r, 1 - low, 1 + high) A) - kl k3 + entropy H]

Here r = π / μ for the policy μ that wrote the token, m = 0 behind the end of a reply, and k3 = e^d - d - 1 for d = log
base - log π. H is the entropy of π among the allowed tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.nn.adam import Adam
from marless_language.adapter_layout import Flat

# The names of a part's sums. `GRADIENT` ``[size]`` is of single precision, all others are ``[1]``, double.
GRADIENT, TOKENS, WRITTEN = "gradient", "tokens", "written"
LOSS, ENTROPY, KL, CLIP_FRACTION, BASE_KL = "loss", "entropy", "kl", "clip_fraction", "base_kl"
REWARD, REPLIES, SPREAD = "reward", "replies", "spread"
_BY_TOKEN = (ENTROPY, KL, CLIP_FRACTION, BASE_KL)
# Guards the division of advantages if a group's rewards are all equal, like in the package trl.
_SPREAD_GUARD = 1e-4


class GrpoSettings(Protocol):
    """The settings of an algorithm that its mathematics reads."""

    @property
    def clip_coef(self) -> float:
        """The distance of the ratio below 1 that counts."""

    @property
    def clip_coef_high(self) -> float:
        """The distance of the ratio above 1 that counts."""

    @property
    def kl_coef(self) -> float: ...

    @property
    def ent_coef(self) -> float: ...

    @property
    def scale(self) -> Literal["none", "std"]:
        """True if advantages are divided by the standard deviation of their group."""

    @property
    def lr(self) -> float: ...

    @property
    def max_grad_norm(self) -> float: ...


class Descent(NamedTuple):
    """An adapter and the state of its optimiser."""

    adapter: Flat
    first: Flat
    second: Flat
    steps: int


ADAM_EPSILON = 1e-8


def advantages(
    rewards: NDArray[np.float64],
    copies: int,
    scale: Literal["none", "std"],
    is_asked: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return ``[n]``: the reward of each reply above the mean of its group of `copies` consecutive replies.

    Only replies that were asked for count (None: all of them). The others have 0.

    Raises `ValueError` unless the rewards are whole groups of finite numbers.
    """
    if len(rewards) % copies:
        raise ValueError(f"{len(rewards)} replies are not groups of {copies}")
    if not np.isfinite(rewards).all():
        raise ValueError("a reward is not finite")
    groups = rewards.reshape(-1, copies)
    mask = np.ones(groups.shape, np.bool_) if is_asked is None else is_asked.reshape(-1, copies)
    counts = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    means = np.where(mask, groups, 0).sum(axis=1, keepdims=True) / counts
    centred: NDArray[np.float64] = np.where(mask, groups - means, 0)
    if scale == "std" and copies > 1:
        variances = np.square(centred).sum(axis=1, keepdims=True) / np.maximum(counts - 1, 1)
        centred /= np.sqrt(variances) + _SPREAD_GUARD
    return centred.ravel()


def begin(adapter: Flat) -> Descent:
    """Before the first step."""
    return Descent(adapter, np.zeros_like(adapter), np.zeros_like(adapter), 0)


def step(settings: GrpoSettings, before: Descent, sums: Sequence[Mapping[str, NDArray[Any]]]) -> Descent:
    """Take one step of Adam along the mean gradient of all parts, summed in their order in double precision. It is
    skipped if the replies had no tokens."""
    tokens = _total(sums, TOKENS)
    if not tokens:
        return before
    total = np.zeros(len(before.adapter))
    for part in sums:
        total += part[GRADIENT]
    parameters, first, second = (np.array(array, np.float32) for array in before[:3])
    adam = Adam(parameters, first, second, before.steps, settings.lr, ADAM_EPSILON, settings.max_grad_norm)
    adam.step((total / tokens).astype(np.float32))
    return Descent(parameters, first, second, adam.steps)


def metrics(sums: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, float]:
    """Return means over all parts: of the text by token, of the rewards by reply, and the loss as it is minimised."""
    written, replies = max(1.0, _total(sums, WRITTEN)), max(1.0, _total(sums, REPLIES))
    gradient = sum((part[GRADIENT].astype(np.float64) for part in sums), np.zeros(1)) / max(1.0, _total(sums, TOKENS))
    return {
        "policy_loss": _total(sums, LOSS) / max(1.0, _total(sums, TOKENS)),
        "policy_grad_norm": float(np.sqrt(gradient @ gradient)),
        **{name: _total(sums, name) / written for name in _BY_TOKEN},
        "reward": _total(sums, REWARD) / replies,
        "advantage_spread": float(np.sqrt(_total(sums, SPREAD) / replies)),
        "reply_tokens": written / replies,
    }


def _total(sums: Sequence[Mapping[str, NDArray[Any]]], name: str) -> float:
    return float(sum((part[name][0] for part in sums), 0.0))
