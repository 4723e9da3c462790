"""Games with players that take turns, as a language task: each episode is a separate game.

All episodes take their turns together. The current player and the length of a game may differ between episodes. So
roles are asked in order, over and over. A role waits in episodes with another player's turn or an ended game
(`Turn.legal`). A game that is not over after all turns is cut off there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.errors import BadRequest
from marless_language.protocol import LegalArray, Lesson, Outcome, TokenArray, Tokenizer, Turn, Vocabulary
from marless_language.tasks.lessons import any_legal, lessons_of_play

_SEEDS = 2**31  # seeds are non-negative int32, which every seeding routine takes
# So many games show a teacher's pupil the legal replies.
_GAMES = 128


class Game(Protocol):
    """One game."""

    @property
    def player(self) -> int | None:
        """The player of this turn, or None when the game is over."""

    @property
    def rewards(self) -> Sequence[float]:
        """The rewards of each player so far."""

    def read(self) -> Sequence[int]:
        """Return the tokens that the player of this turn reads."""

    def legal(self) -> LegalArray:
        """``[A]``: which of the allowed tokens the player's reply may consist of."""

    def reply(self, tokens: TokenArray) -> None:
        """Goes on with the player's reply ``[length]``."""

    def close(self) -> None:
        """Ends the game, which is not played again."""


@dataclass(frozen=True)
class Rules:
    """The common properties of all episodes."""

    roles: tuple[str, ...]
    sides: tuple[int, ...]
    turns: int
    prompt: int
    """Tokens of a prompt: of longer ones the last are read, shorter ones have `fill` in front."""
    fill: int
    allowed: TokenArray
    length: int = 1
    end: int | None = None
    ends: tuple[int, ...] = ()
    phrases: tuple[TokenArray, ...] = ()
    """The replies of a teacher, each ``[length]``. See `GameTask.lessons`."""


class GameTask:
    """The task. See the module."""

    def __init__(self, tokenizer: Vocabulary, rules: Rules, begin: Callable[[int], Game]) -> None:
        """`begin` begins a game with a seed, a number from 0 to 2³¹ - 1."""
        self.tokenizer: Tokenizer = tokenizer
        self._rules, self._begin = rules, begin
        self.roles, self.sides, self.turns = rules.roles, rules.sides, rules.turns
        self.context = rules.prompt + rules.length

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """Copies of an episode begin with one seed."""
        seeds = rng.integers(_SEEDS, size=episodes // copies).repeat(copies)
        self._games, self._turn = [self._begin(seed) for seed in seeds.tolist()], 0
        return self._ask()

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Asks the next role, or ends the games."""
        for game, reply in zip(self._games, replies, strict=True):
            if game.player == self._role:
                game.reply(reply)
        self._turn += 1
        return self._ask() if self._turn < self.turns else self._outcome()

    @property
    def _role(self) -> int:
        return self._turn % len(self.roles)

    def _ask(self) -> Turn:
        rules, episodes = self._rules, len(self._games)
        prompts = np.full((episodes, rules.prompt), rules.fill, np.int32)
        legal = np.zeros((episodes, len(rules.allowed)), np.bool_)
        for row, game in enumerate(self._games):
            if game.player == self._role:
                tokens = game.read()[-rules.prompt :]
                prompts[row, rules.prompt - len(tokens) :] = tokens
                legal[row] = game.legal()
        return Turn(self._role, prompts, rules.allowed, rules.length, rules.end, legal, ends=rules.ends)

    def _outcome(self) -> Outcome:
        is_over: NDArray[np.float64] = np.array([game.player is None for game in self._games], np.float64)
        for game in self._games:
            game.close()
        return Outcome(np.array([game.rewards for game in self._games], np.float64), {"over": is_over})

    def lessons(self, rng: np.random.Generator, examples: int) -> tuple[Lesson, ...]:
        """Examples of a teacher who says any of the phrases, or any legal token where a reply is one token.

        Raises `BadRequest` without phrases where a reply is a text.
        """
        rules = self._rules
        if rules.length > 1 and not rules.phrases:
            raise BadRequest(
                "a small model does not learn to say any text: name what players say in task.options.phrases, such as"
                ' "yes|no", or set base.model to a language model'
            )
        teacher = self._any_phrase if rules.phrases else any_legal
        lessons = lessons_of_play(self, self.turns, teacher, rng, examples, min(_GAMES, examples))
        for game in self._games:
            game.close()
        return lessons

    def _any_phrase(self, turn: Turn, rng: np.random.Generator) -> TokenArray:
        phrases = self._rules.phrases
        return np.stack(phrases)[rng.integers(len(phrases), size=len(turn.prompts))]
