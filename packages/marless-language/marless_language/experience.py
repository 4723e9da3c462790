"""The replies of roles, and their rewards."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from marless_language.protocol import LegalArray, TokenArray, Turn


class Sampled(NamedTuple):
    """Replies to the prompts of a turn in E episodes."""

    replies: TokenArray
    """``[E, R]``; behind the token that ends a reply it is repeated, and where nobody was asked it is any token."""
    log_probability: NDArray[np.float32]
    """``[E, R]`` among the tokens that it may consist of; 0 behind the end, and where nobody was asked."""
    mask: NDArray[np.bool_]
    """``[E, R]``: False behind the end, and where nobody was asked."""

    @classmethod
    def of(cls, turn: Turn, replies: TokenArray, log_probability: NDArray[np.float32]) -> Self:
        """Return replies that count only up to their end, and only in episodes that asked the role."""
        ends = replies == (-1 if turn.end is None else turn.end)
        if turn.ends:
            ends |= np.isin(replies, turn.ends)
        mask = np.asarray(np.cumsum(ends, axis=1) - ends == 0) & turn.is_asked[:, np.newaxis]
        fill = np.int32(turn.allowed[0] if turn.end is None else turn.end)
        return cls(np.where(mask, replies, fill), np.where(mask, log_probability, np.float32(0)), mask)

    @classmethod
    def at_random(cls, turn: Turn, rng: np.random.Generator) -> Self:
        """Every token that a reply may consist of is as likely as any other."""
        shape = (len(turn.prompts), turn.length)
        if turn.legal is None:
            places, choices = rng.integers(len(turn.allowed), size=shape), np.full(shape, len(turn.allowed))
        else:
            choices = np.broadcast_to(np.maximum(turn.legal.sum(axis=1, keepdims=True), 1), shape)
            # One draw each, independent of other rows: the legal token that has so many legal tokens before it.
            numbers = (rng.random(shape) * choices).astype(np.int64)
            is_it = np.cumsum(turn.legal, axis=1)[:, np.newaxis] - 1 == numbers[..., np.newaxis]
            places = (is_it & turn.legal[:, np.newaxis]).argmax(axis=2)
        return cls.of(turn, turn.allowed[places], -np.log(choices.astype(np.float32)))


class Replies(NamedTuple):
    """A role's n replies of one turn. Each `copies` consecutive ones are a group: their episodes began alike."""

    role: int
    turn: int
    tokens: TokenArray
    """``[n, P + R]``: prompts and replies."""
    prompt: int
    """P, the tokens of a prompt."""
    allowed: TokenArray
    """``[A]``, ascending: the tokens that a reply may consist of."""
    log_probability: NDArray[np.float32]
    """``[n, R]``: of each token of the reply under the weights that wrote it; 0 behind its end."""
    mask: NDArray[np.bool_]
    """``[n, R]``: False behind the end of a reply, and where the role was not asked."""
    reward: NDArray[np.float64]
    """``[n]``."""
    copies: int
    legal: LegalArray | None = None
    """``[n, A]``: which of the allowed tokens each reply may consist of; None: all."""
    common: int = 0
    """As in `Turn`."""

    def of_rows(self, rows: NDArray[np.bool_]) -> Self:
        """Return only these replies. Their groups are no longer whole."""
        return self._replace(
            tokens=self.tokens[rows],
            log_probability=self.log_probability[rows],
            mask=self.mask[rows],
            legal=None if self.legal is None else self.legal[rows],
            reward=self.reward[rows],
        )
