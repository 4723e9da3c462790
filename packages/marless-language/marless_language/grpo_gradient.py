"""The gradient of `grpo` for an adapter, summed over the replies of a part of a round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marless_language import grpo
from marless_language.adapter_layout import Flat
from marless_language.experience import Replies
from marless_language.grpo import GrpoSettings, advantages
from marless_language.model.llama import Weights, product
from marless_language.model.speaker import Speaker, among
from marless_language.protocol import TokenArray

Sums = dict[str, NDArray[Any]]


def gradient_sums(speaker: Speaker, adapter: Flat, settings: GrpoSettings, parts: Sequence[Replies]) -> Sums:
    """The sums of `grpo` over a part of a round, for the roles that speak through this adapter.

    Only tokens of replies have a gradient, and only the allowed ones are weighed. Raises `ValueError` for rewards that
    are not finite and `UnusableBase` as `Speaker.trunk`.
    """
    total = np.zeros(speaker.layout.size)
    sums = dict.fromkeys(_NAMES, 0.0)
    for every in parts:
        sums[grpo.TOKENS] += every.mask.size
        is_asked = np.asarray(every.mask.any(axis=1))
        if not is_asked.any():
            continue
        advantage = advantages(every.reward, every.copies, settings.scale, is_asked)[is_asked]
        replies = every.of_rows(is_asked)
        distinct = Distinct.of(replies, advantage)
        sums[grpo.WRITTEN] += int(replies.mask.sum())
        sums[grpo.REPLIES] += len(replies.reward)
        sums[grpo.REWARD] += float(replies.reward.sum())
        sums[grpo.SPREAD] += float(np.square(distinct.advantages).sum())
        for rows in _gradients(speaker, adapter, settings, replies, distinct):
            total += rows.gradient
            for name, value in rows.sums.items():
                sums[name] += value
    return {
        grpo.GRADIENT: total.astype(np.float32),
        **{name: np.array([value], np.float64) for name, value in sums.items()},
    }


_BY_ROW = (grpo.LOSS, grpo.ENTROPY, grpo.KL, grpo.CLIP_FRACTION, grpo.BASE_KL)
_NAMES = (*_BY_ROW, grpo.TOKENS, grpo.WRITTEN, grpo.REPLIES, grpo.REWARD, grpo.SPREAD)


@dataclass(frozen=True)
class Distinct:
    """The u different replies of a turn: equal replies, with equal prompts, are computed once.

    The clip of a reply depends only on its ratio and on the sign of its advantage. So its copies only need the sums of
    the advantages above and below 0: exactly, up to rounding. The model reads all tokens but the last, so several
    replies share its input: for example all one-token replies to one prompt.
    """

    rows: NDArray[np.intp]
    """``[u]``: the first of those that are alike, in the order of their tokens and not of the rows."""
    copies: NDArray[np.float32]
    above: NDArray[np.float32]
    below: NDArray[np.float32]
    """``[u]``, as is `above`: sums of advantages."""
    inputs: TokenArray
    """``[v, P + R - 1]``: what the model reads, ascending."""
    reads: NDArray[np.intp]
    """``[u]``: which of the inputs, ascending."""
    advantages: NDArray[np.float64]
    """``[n]``."""

    @classmethod
    def of(cls, replies: Replies, advantage: NDArray[np.float64]) -> "Distinct":
        """Return the distinct replies of `replies`, with their advantages ``[n]``."""
        behaviour = np.ascontiguousarray(replies.log_probability, np.float32).view(np.int32)
        legal = [] if replies.legal is None else [replies.legal]
        _, rows, places, copies = np.unique(
            np.concatenate((replies.tokens, behaviour, *legal), axis=1),
            axis=0,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        above, below = (
            np.bincount(places.ravel(), part, len(rows)).astype(np.float32)
            for part in (np.maximum(advantage, 0), np.minimum(advantage, 0))
        )
        inputs, reads = np.unique(replies.tokens[rows, :-1], axis=0, return_inverse=True)
        return cls(rows, copies.astype(np.float32), above, below, inputs, reads.ravel(), advantage)


class Rows(NamedTuple):
    """Of some rows: the gradient ``[size]``, and sums by name."""

    gradient: NDArray[np.float32]
    sums: dict[str, float]


class Inputs(NamedTuple):
    """The inputs of the loss of some replies, see `Replies` and `Distinct`."""

    picked: Tensor
    behaviour: Tensor
    mask: Tensor
    copies: Tensor
    above: Tensor
    below: Tensor


def _gradients(
    speaker: Speaker, adapter: Flat, settings: GrpoSettings, replies: Replies, distinct: Distinct
) -> list[Rows]:
    opening = speaker.opening(distinct.inputs[0, : replies.common])
    hidden, length = speaker.trunk(distinct.inputs, replies.common), replies.log_probability.shape[1]
    head, matrices = speaker.head(replies.allowed), speaker.matrices(adapter, gradient=True)
    leaves = [matrices[entry.name] for entry in speaker.layout.entries]

    def logits(hidden_rows: Tensor, adapter: Weights) -> Tensor:
        """``[rows, R, A]``: of every allowed token at every position of the reply."""
        return product(speaker.top(hidden_rows, adapter, length, opening), head)

    def gradient(numbers: TokenArray, count: int) -> Rows:
        first, last = np.searchsorted(distinct.reads, (numbers[0], numbers[0] + count))
        ours, reads = slice(first, last), torch.from_numpy(distinct.reads[first:last] - numbers[0])
        hidden_rows = hidden[torch.from_numpy(numbers)]
        legal = None if replies.legal is None else replies.legal[distinct.rows[ours]]
        policy = among(logits(hidden_rows, matrices)[reads], legal)
        base = None
        if settings.kl_coef:
            with torch.no_grad():
                base = among(logits(hidden_rows, {})[reads], legal)
        loss, sums = losses(policy, base, _inputs(replies, distinct, ours), settings)
        gradients = torch.autograd.grad(loss, leaves)
        return Rows(np.concatenate([part.numpy().ravel() for part in gradients]), sums)

    return speaker.each_part(np.arange(len(distinct.inputs), dtype=np.int32), gradient)


def _inputs(replies: Replies, distinct: Distinct, ours: slice) -> Inputs:
    rows = distinct.rows[ours]
    places = np.searchsorted(replies.allowed, replies.tokens[rows, replies.prompt :])
    places = np.minimum(places, len(replies.allowed) - 1)
    weights = (array[ours, np.newaxis] for array in (distinct.copies, distinct.above, distinct.below))
    return Inputs(
        torch.from_numpy(places.astype(np.int64)),
        torch.from_numpy(replies.log_probability[rows].astype(np.float32)),
        torch.from_numpy(replies.mask[rows].astype(np.float32)),
        *(torch.from_numpy(weight) for weight in weights),
    )


def losses(
    policy: Tensor, base: Tensor | None, inputs: Inputs, settings: GrpoSettings
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of `grpo`, not yet divided, and the sums `_BY_ROW`. Inputs are log-probabilities ``[rows, R, A]``
    of the policy and, if it counts, of the base."""
    low, high = settings.clip_coef, settings.clip_coef_high
    picked = inputs.picked.unsqueeze(-1)
    log_probability = policy.gather(-1, picked).squeeze(-1)
    log_ratio = log_probability - inputs.behaviour
    ratio = log_ratio.exp()
    gain = inputs.above * ratio.clamp(max=1 + high) + inputs.below * ratio.clamp(min=1 - low)
    entropy = -(policy.exp() * policy).sum(-1)
    drift = torch.zeros_like(ratio)
    if base is not None:
        difference = base.gather(-1, picked).squeeze(-1) - log_probability
        drift = difference.exp() - difference - 1
    weight = inputs.copies * inputs.mask
    loss = -(gain * inputs.mask + weight * (settings.ent_coef * entropy - settings.kl_coef * drift)).sum()
    outside = (ratio > 1 + high) | (ratio < 1 - low)
    by_row = (loss, weight * entropy, weight * (ratio - 1 - log_ratio), weight * outside, weight * drift)
    return loss, {name: float(values.detach().sum()) for name, values in zip(_BY_ROW, by_row, strict=True)}
