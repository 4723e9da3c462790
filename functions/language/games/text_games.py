"""Games of text, as the package textarena has them, as games of tokens.

A game has `reset(num_players, seed)`, `get_observation()`, which returns the number of the player whose turn it is and
what it reads, `step(text)`, which returns whether the game is over, and `close()`, which returns the rewards by player.
What a player reads is a text, or a list of messages whose second part is the text. `task.options` are the factory's
keyword arguments and

* `players`, by default 2, and `sides`, the players' names from player_0 on, as for networks;
* `horizon`, the most turns of a game, `prompt`, the most tokens that are read of a text, from its end, and `reply`, the
  most tokens of a reply, which a new line ends;
* `phrases`, with ``|`` between them: what a small model learns to say before it plays.

Games draw from Python's own generator of random numbers, so each has a state of its own.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functions.environments.base import EnvTask, Unsupported
from functions.environments.pettingzoo.agents import sides_of
from functions.environments.pettingzoo.guard import Guard
from functions.language.games.game_task import GameTask, Rules
from functions.language.games.texts import CHARACTERS, END, FILL, count_of, readable, without_options
from functions.language.protocol import LegalArray, TokenArray, Tokenizer
from functions.language.tasks.prompts import single_tokens
from functions.resources.factories import resources_for

_METHODS = ("reset", "get_observation", "step", "close")
_OPTIONS = ("players", "sides", "horizon", "prompt", "reply", "phrases")


def is_text_game(kind: type) -> bool:
    """Whether a class has the interface of a game of text."""
    return all(hasattr(kind, name) for name in _METHODS)


def make(task: EnvTask, factory: Callable[..., Any], tokenizer: Tokenizer | None) -> GameTask:
    """The task with the vocabulary of a base, or with one of its own; raises `ValueError` for options that are missing
    or wrong, `Unsupported` for another interface."""
    vocabulary, options = tokenizer or CHARACTERS, without_options(task, *_OPTIONS).options
    players = count_of(task, "players", "how many there are") if "players" in task.options else 2
    roles = tuple(f"player_{player}" for player in range(players))
    length = count_of(task, "reply", "the most tokens of a reply")
    end = int(single_tokens(vocabulary, [END])[0])
    rules = Rules(
        roles=roles,
        sides=sides_of(task.name, roles, task.options.get("sides", "")),
        turns=count_of(task, "horizon", "the most turns of a game"),
        prompt=count_of(task, "prompt", "the most tokens that are read of a text"),
        fill=int(single_tokens(vocabulary, [FILL])[0]),
        allowed=np.arange(vocabulary.size, dtype=np.int32),
        length=length,
        end=end,
        phrases=_phrases(task, vocabulary, length, end),
    )

    def begin(seed: int) -> TextGame:
        game = factory(**options, **resources_for(factory, options))
        if not is_text_game(type(game)):
            raise Unsupported(f"{task.name} makes a {type(game).__name__}, which lacks one of {', '.join(_METHODS)}")
        return TextGame(Guard(task.name, game), rules, vocabulary, seed)

    return GameTask(vocabulary, rules, begin)


def _phrases(task: EnvTask, vocabulary: Tokenizer, length: int, end: int) -> tuple[TokenArray, ...]:
    option = task.options.get("phrases", "")
    texts = str(option).split("|") if option else []
    every = [vocabulary.encode(text) for text in texts]
    if long := [text for text, tokens in zip(texts, every, strict=True) if len(tokens) > length]:
        raise ValueError(f"{task.name}: {long[0]!r} of task.options.phrases has more than task.options.reply tokens")
    return tuple(np.array(tokens + [end] * (length - len(tokens)), np.int32) for tokens in every)


class TextGame:
    """One game; see `functions.language.games.game_task.Game`."""

    player: int | None

    def __init__(self, guard: Guard, rules: Rules, vocabulary: Tokenizer, seed: int) -> None:
        """Begins it; raises `EnvironmentFault`."""
        self._guard, self._rules, self._vocabulary = guard, rules, vocabulary
        self._random = random.Random(seed).getstate()
        self.rewards = [0.0] * len(rules.roles)
        with self._drawing():
            guard.call("reset", num_players=len(rules.roles), seed=seed)
            self._observe()

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Within it Python's generator draws the numbers of this game."""
        outside = random.getstate()
        random.setstate(self._random)
        try:
            yield
        finally:
            self._random = random.getstate()
            random.setstate(outside)

    def _observe(self) -> None:
        player, observation = self._guard.call("get_observation")
        if not isinstance(player, int) or not 0 <= player < len(self._rules.roles):
            raise self._guard.fault("get_observation", f"it is the turn of player {player!r}, whom there is not")
        parts = [observation] if isinstance(observation, str) else [message[1] for message in observation]
        self.player, self._text = player, "\n".join(map(str, parts))

    def read(self) -> Sequence[int]:
        """See `Game.read`."""
        return readable(self._text, self._vocabulary)

    def legal(self) -> LegalArray:
        """See `Game.legal`: any text may be said."""
        return np.ones(len(self._rules.allowed), np.bool_)

    def reply(self, tokens: TokenArray) -> None:
        """See `Game.reply`; raises `EnvironmentFault`."""
        words = tokens.tolist()
        words = words[: words.index(self._rules.end)] if self._rules.end in words else words
        with self._drawing():
            is_over, _ = self._guard.call("step", self._vocabulary.decode(words))
            self._guard.steps += 1
            if not is_over:
                self._observe()
                return
        self.player = None

    def close(self) -> None:
        """See `Game.close`: a game that was cut off may have no rewards."""
        rewards, _ = self._guard.call("close")
        for player, reward in (rewards or {}).items():
            self.rewards[int(player)] = self._guard.number("close", reward, f"the reward of player {player}")
