"""The protocol of language tasks: roles that take turns, each of which reads a prompt and writes a reply of tokens.

E episodes go on together and take their turns in the same order, so that every turn of an episode has one shape for all
of them. Prompts and replies are token ids: what one role wrote reaches another as the tokens that it is, as the same
text may be split otherwise where it stands in front of another one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

TokenArray = NDArray[np.int32]
LegalArray = NDArray[np.bool_]


class Tokenizer(Protocol):
    """Texts as tokens."""

    @property
    def size(self) -> int:
        """Tokens of the vocabulary, whose ids are 0 to `size` - 1."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any that mark its beginning or end; raises `ValueError` for a text that the
        vocabulary cannot write."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the ids."""


class Vocabulary(Tokenizer, Protocol):
    """That of a base, or the symbols of a task."""

    @property
    def tokens(self) -> Sequence[int]:
        """The ids that are tokens, ascending: there may be gaps between them."""

    @property
    def marks(self) -> frozenset[int]:
        """The tokens that are no text, such as the end of a message."""

    def encode_plain(self, text: str) -> list[int]:
        """Like `encode`, for a text of others: a spelt mark stays text, and ``?`` replaces a character without a token.
        Raises `ValueError` where there is none for that either."""


class Turn(NamedTuple):
    """What a role has to answer in each of E episodes."""

    role: int
    """Its position in `LanguageTask.roles`."""
    prompts: TokenArray
    """``[E, P]``."""
    allowed: TokenArray
    """``[A]``, ascending: the tokens that a reply may consist of."""
    length: int
    """Tokens of a reply."""
    end: int | None = None
    """The allowed token that ends a reply: those after it do not count. None: replies are as long as `length`."""
    legal: LegalArray | None = None
    """``[E, A]``: which of the allowed tokens the reply of each episode may consist of; None: all. In an episode with
    none the role is not asked, because it is another's turn there or the episode is over: its reply is not read, and
    nobody learns from it."""
    common: int = 0
    """So many tokens, fewer than P, are the same at the beginning of all prompts, in every episode that is ever played:
    the frozen layers compute them once for all of them, those with adapters once for a few together."""
    ends: tuple[int, ...] = ()
    """Further allowed tokens that end a reply, as `end` does, ascending."""

    @property
    def is_asked(self) -> LegalArray:
        """``[E]``: whether the role is asked."""
        legal = np.ones((len(self.prompts), 1), np.bool_) if self.legal is None else self.legal
        return np.asarray(legal.any(axis=1))

    def of_episodes(self, rows: slice | LegalArray) -> "Turn":
        """The turn in these episodes alone."""
        return self._replace(prompts=self.prompts[rows], legal=None if self.legal is None else self.legal[rows])


class Outcome(NamedTuple):
    """How E episodes ended."""

    rewards: NDArray[np.float64]
    """``[E, roles]``."""
    metrics: Mapping[str, NDArray[np.float64]] = {}
    """By name ``[E]``."""


class Lesson(NamedTuple):
    """Examples of one turn for a small model that starts from nothing."""

    tokens: TokenArray
    """``[n, P + R]``: prompts and what the teacher replies."""
    prompt: int
    """P, the tokens of the prompt."""


class LanguageTask(Protocol):
    """E episodes of a task, turn after turn; who plays calls `reset`, and then `reply` until it returns an outcome."""

    roles: tuple[str, ...]
    """The names of the roles, which are the agents."""
    sides: tuple[int, ...]
    """The side of each role where their rewards are opposed; empty where they are on one side."""
    turns: int
    """Turns of an episode, of all roles together."""
    context: int
    """Tokens of the longest prompt and its reply."""
    tokenizer: Tokenizer
    """The vocabulary of its prompts and replies."""

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """Begins `episodes` episodes; each `copies` consecutive ones of them begin alike, so that what they return
        differs by the replies alone. All that is random comes from `rng`, which may be kept."""

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Goes on with the replies ``[E, length]`` to the latest turn."""

    def lessons(self, rng: np.random.Generator, examples: int) -> tuple[Lesson, ...]:
        """So many examples of each turn; none where no small base can be made for the task."""
