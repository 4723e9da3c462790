"""Replies of a role: the Gumbel-max trick at temperature 1 over the allowed tokens, with noise drawn by address.

The shapes depend on the turn alone, and rows are computed in parts of fixed size. So a reply depends only on its
prompt, its noise and the adapter.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from marless_language.adapter_layout import Flat
from marless_language.errors import UnusableBase
from marless_language.experience import Sampled
from marless_language.model.llama import Past, Weights
from marless_language.model.speaker import ROWS, Speaker, among, chunks
from marless_language.protocol import LegalArray, TokenArray, Turn

Noise = NDArray[np.float32]
# Rows that continue token by token together. They keep their keys and values meanwhile.
_GOING_ON = 32


@torch.no_grad()
def sample(speaker: Speaker, adapter: Flat | None, turn: Turn, noise: Noise | None) -> Sampled:
    """Replies to the turn's prompts by the adapter, or by the base alone where there is none.

    `noise` ``[E, R, A]`` are standard Gumbel numbers. Without it the likeliest token is taken each time. Raises
    `UnusableBase` where the model cannot read the prompts with their replies, or misses one of the tokens.
    """
    speaker.require_readable(turn.prompts, turn.length)
    speaker.require_readable(turn.allowed[np.newaxis, :1])
    speaker.require_readable(turn.allowed[np.newaxis, -1:])
    matrices = speaker.matrices(adapter)
    distinct, places = np.unique(turn.prompts, axis=0, return_inverse=True)
    if turn.length == 1:
        logits = _of_one_token(speaker, matrices, distinct, turn)[places.ravel()]
        picked, log_probability = _pick(logits, turn.legal, noise, 0)
        tokens, numbers = picked[:, np.newaxis], log_probability[:, np.newaxis]
    else:
        tokens, numbers = _of_several(speaker, matrices, distinct, places.ravel(), turn, noise)
    return Sampled.of(turn, np.asarray(turn.allowed, np.int32)[tokens], numbers)


def _of_one_token(speaker: Speaker, adapter: Weights, prompts: TokenArray, turn: Turn) -> Tensor:
    """The logits ``[n, A]`` behind the prompts, computed as learning computes them."""
    opening, hidden = speaker.opening(prompts[0, : turn.common]), speaker.trunk(prompts, turn.common)

    def outputs(numbers: TokenArray, count: int) -> Tensor:
        return speaker.top(hidden[torch.from_numpy(numbers)], adapter, 1, opening)[:count]

    every = speaker.each_part(np.arange(len(prompts), dtype=np.int32), outputs)
    return _logits(torch.cat(every), speaker.head(turn.allowed))


def _of_several(
    speaker: Speaker, adapter: Weights, prompts: TokenArray, places: NDArray[np.intp], turn: Turn, noise: Noise | None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The positions of the replies' tokens among the allowed ones and their log-probabilities, ``[E, R]``. Of the
    distinct prompts, row e follows number ``places[e]``."""
    opening = speaker.opened(speaker.opening(prompts[0, : turn.common]), adapter)
    before = speaker.each_part(
        prompts[:, turn.common :], lambda part, count: _read(speaker, adapter, opening, part, count)
    )
    first = torch.cat([outputs for outputs, _ in before])
    tokens = np.zeros((len(places), turn.length), np.int64)
    numbers = np.zeros((len(places), turn.length), np.float32)
    allowed, head = torch.from_numpy(np.asarray(turn.allowed, np.int64)), speaker.head(turn.allowed)
    for rows, count in chunks(np.arange(len(places), dtype=np.int32), _GOING_ON):
        at = torch.from_numpy(places[rows])
        outputs, ours = first[at], rows[:count]
        past = [_joined(of_layer, at) for of_layer in zip(*(pasts for _, pasts in before), strict=True)]
        part = None if noise is None else noise[rows]
        legal = None if turn.legal is None else turn.legal[rows]
        for position in range(turn.length):
            picked, log_probability = _pick(_logits(outputs, head), legal, part, position)
            tokens[ours, position], numbers[ours, position] = picked[:count], log_probability[:count]
            if position + 1 < turn.length:
                written = allowed[torch.from_numpy(picked)].unsqueeze(1)
                outputs, past = speaker.following(written, past, adapter)
    return tokens, numbers


def _read(
    speaker: Speaker, adapter: Weights, opening: list[Past] | None, prompts: TokenArray, count: int
) -> tuple[Tensor, list[Past]]:
    outputs, pasts = speaker.following(torch.from_numpy(prompts.astype(np.int64)), opening, adapter)
    return outputs[:count], [Past(past.keys[:count], past.values[:count]) for past in pasts]


def _joined(parts: tuple[Past, ...], rows: Tensor) -> Past:
    """The rows with these numbers of all parts together."""
    return Past(torch.cat([past.keys for past in parts])[rows], torch.cat([past.values for past in parts])[rows])


def _logits(outputs: Tensor, head: Tensor) -> Tensor:
    """``[n, A]`` of outputs ``[n, 1, hidden]``, in parts of `ROWS`."""
    rows, parts = outputs[:, 0], list[Tensor]()
    for numbers, count in chunks(np.arange(len(rows), dtype=np.int32), ROWS):
        parts.append(functional.linear(rows[torch.from_numpy(numbers)], head)[:count])
    return torch.cat(parts)


def _pick(
    logits: Tensor, legal: LegalArray | None, noise: Noise | None, position: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The positions of the tokens among the allowed ones and their log-probabilities, ``[n]``."""
    log_probability = among(logits, legal)
    if not torch.isfinite(log_probability.sum()):
        raise UnusableBase("the model's outputs are not finite; lower algorithm.lr or take another base")
    scores = log_probability if noise is None else log_probability + torch.from_numpy(noise[:, position].copy())
    picked = scores.argmax(-1)
    return picked.numpy(), log_probability.gather(1, picked[:, None])[:, 0].numpy()
