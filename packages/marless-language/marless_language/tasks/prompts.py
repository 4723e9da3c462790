"""Prompts of several episodes, put together from texts and from other roles' replies."""

from collections.abc import Sequence

import numpy as np

from marless_language.errors import Unwritable
from marless_language.protocol import TokenArray, Tokenizer

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DIGITS = tuple(map(str, range(10)))


def same_length(tokenizer: Tokenizer, texts: Sequence[str]) -> TokenArray:
    """Return the tokens of the texts ``[n, P]``. Raises `Unwritable` if they have different numbers of tokens."""
    rows = [tokenizer.encode(text) for text in texts]
    first = len(rows[0])
    for text, row in zip(texts, rows, strict=True):
        if len(row) != first:
            raise Unwritable(
                f"the vocabulary writes {text!r} with {len(row)} tokens and {texts[0]!r} with {first}; prompts of a"
                " turn need equally many"
            )
    return np.array(rows, np.int32).reshape(len(rows), first)


def single_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> TokenArray:
    """Return the tokens of the texts ``[n]``. Raises `Unwritable` if a text needs several tokens, or if two texts have
    the same token."""
    tokens = same_length(tokenizer, texts)
    if tokens.shape[1] != 1 or len({*tokens[:, 0].tolist()}) != len(texts):
        raise Unwritable(f"the vocabulary has no token of its own for each of {', '.join(map(repr, texts))}")
    return tokens[:, 0]


def beside(*parts: Sequence[int] | TokenArray) -> TokenArray:
    """Return the parts one after another ``[E, P]``. A part of one dimension is the same in every episode."""
    columns = [np.asarray(part, np.int32) for part in parts]
    episodes = next(len(column) for column in columns if column.ndim == 2)
    return np.concatenate(
        [np.broadcast_to(column, (episodes, column.shape[-1])) for column in columns], axis=1, dtype=np.int32
    )


def numbers_of(tokens: TokenArray, among: TokenArray) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the position of each of `tokens` in `among`, and -1 for other tokens."""
    order = np.argsort(among)
    place = np.searchsorted(among, tokens, sorter=order).clip(max=len(among) - 1)
    return np.where(among[order][place] == tokens, order[place], -1)
