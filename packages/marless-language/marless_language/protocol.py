"""The protocol of language tasks: roles take turns. In a turn, a role reads a prompt and writes a reply of tokens.

E episodes run together and take their turns in the same order, so all episodes have the same shapes in a turn. Prompts
and replies are token ids. A reply reaches another role as tokens, because the same text may split into other tokens
next to another text.
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
        """The number of tokens of the vocabulary. Their ids are 0 to `size` - 1."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any that mark its beginning or end. Raises `ValueError` for a text that the
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
    """A prompt to one role in each of E episodes, and the tokens that it may reply.

    A prompt has P tokens, and A tokens are allowed.
    """

    role: int
    """The position of the role in `LanguageTask.roles`."""
    prompts: TokenArray
    """``[E, P]``: the tokens that the role reads."""
    allowed: TokenArray
    """``[A]``, ascending: the tokens that a reply may consist of."""
    length: int
    """Tokens of a reply."""
    end: int | None = None
    """The allowed token that ends a reply. Later tokens do not count. None: replies are as long as `length`."""
    legal: LegalArray | None = None
    """``[E, A]``: the allowed tokens that are legal in each episode. None: all. In an episode without legal tokens the
    role is not asked: another role has the turn, or the episode is over. Nothing reads that reply or learns from it."""
    common: int = 0
    """The number of tokens, below P, that are the same at the start of all prompts in every episode ever played. The
    frozen layers compute them once for all prompts, and layers with adapters once for a few prompts."""
    ends: tuple[int, ...] = ()
    """Further allowed tokens that end a reply, ascending."""

    @property
    def is_asked(self) -> LegalArray:
        """``[E]``: whether the role is asked."""
        legal = np.ones((len(self.prompts), 1), np.bool_) if self.legal is None else self.legal
        return np.asarray(legal.any(axis=1))

    def of_episodes(self, rows: slice | LegalArray) -> "Turn":
        """The turn in these episodes alone."""
        return self._replace(prompts=self.prompts[rows], legal=None if self.legal is None else self.legal[rows])


class Outcome(NamedTuple):
    """The rewards and metrics of E episodes."""

    rewards: NDArray[np.float64]
    """``[E, roles]``."""
    metrics: Mapping[str, NDArray[np.float64]] = {}
    """By name ``[E]``."""


class Lesson(NamedTuple):
    """Prompts and a teacher's replies for one turn. A small model learns from them before the run.

    A good teacher is often wrong, so that the roles can improve on it.
    """

    tokens: TokenArray
    """``[n, P + R]``: in each row the P tokens of a prompt, then the R tokens of a reply."""
    prompt: int
    """P, the tokens of a prompt."""


class LanguageTask(Protocol):
    """E episodes of a task. A rollout calls `reset`, and then `reply` until it returns an `Outcome`."""

    roles: tuple[str, ...]
    """The names of the roles, which are the agents."""
    sides: tuple[int, ...]
    """The side of each role if their rewards are opposed. Empty: all roles are on one side."""
    turns: int
    """Turns of an episode, of all roles together."""
    context: int
    """Tokens of the longest prompt and its reply."""
    tokenizer: Tokenizer
    """The vocabulary of its prompts and replies."""

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """Begin `episodes` episodes, and return the first turn.

        Each `copies` consecutive episodes begin alike, so only the replies make a difference between their rewards.
        Everything random comes from `rng`, which the task may keep.
        """

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Take the replies ``[E, length]`` to the latest turn, and return the next turn or the outcome."""

    def lessons(self, rng: np.random.Generator, examples: int) -> tuple[Lesson, ...]:
        """Return a lesson of so many examples for each turn, in order.

        By default there is none, and the small model begins with random legal replies.
        """
        return ()
