"""Games of text, as the package textarena has them, as games of tokens.

A game has these methods. `reset(num_players, seed)` begins it. `get_observation()` returns the number of the current
player and a text or a list of messages. `step(text)` returns whether the game is over, and infos. `close()` returns the
rewards, alone or before infos. Rewards are a dictionary by player or a list of all, or None in a game that was cut off.
A message is a text, has it as its second part, or is a dictionary with `content`. `task.options` are the factory's
keyword arguments and

* `players`, by default 2, and `sides`, the players' names from player_0 on, as for networks;
* `horizon`, the most turns of a game, `prompt`, the most tokens read from the end of a text, and `reply`, the most
  tokens of a reply. A new line or a mark of the vocabulary ends it;
* `phrases`, with ``|`` between them: texts that a small model learns to say before it plays.

Each game has separate states of Python's and numpy's global generators of random numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from marless.functions.environments.base import EnvTask, Unsupported
from marless.functions.environments.pettingzoo.agents import sides_of
from marless.functions.environments.pettingzoo.guard import Guard
from marless.functions.resources.factories import resources_for
from marless_language.games.draws import Draws
from marless_language.games.game_answers import is_over, message_text, player_number, rewards_by_player
from marless_language.games.game_task import GameTask, Rules
from marless_language.games.texts import CHARACTERS, END, FILL, count_of, ends_of, line_of, without_options
from marless_language.protocol import LegalArray, TokenArray, Vocabulary
from marless_language.tasks.prompts import single_tokens

_METHODS = ("reset", "get_observation", "step", "close")
_OPTIONS = ("players", "sides", "horizon", "prompt", "reply", "phrases")


def is_text_game(kind: type) -> bool:
    """Return whether a class has the interface of a game of text."""
    return all(hasattr(kind, name) for name in _METHODS)


def make(task: EnvTask, factory: Callable[..., Any], tokenizer: Vocabulary | None) -> GameTask:
    """Return the task with the vocabulary of a base, or with its default vocabulary. Raises `ValueError` for missing or
    wrong options, and `Unsupported` for another interface."""
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
        allowed=np.array(vocabulary.tokens, np.int32),
        length=length,
        end=end,
        ends=tuple(token for token in ends_of(vocabulary) if token != end),
        phrases=_phrases(task, vocabulary, length, end),
    )

    def begin(seed: int) -> TextGame:
        with Draws(seed):
            game = factory(**options, **resources_for(factory, options))
        if not is_text_game(type(game)):
            raise Unsupported(f"{task.name} makes a {type(game).__name__}, which lacks one of {', '.join(_METHODS)}")
        return TextGame(Guard(task.name, game), rules, vocabulary, seed)

    return GameTask(vocabulary, rules, begin)


def _phrases(task: EnvTask, vocabulary: Vocabulary, length: int, end: int) -> tuple[TokenArray, ...]:
    option = task.options.get("phrases", "")
    texts = str(option).split("|") if option else []
    every = [vocabulary.encode(text) for text in texts]
    if long := [text for text, tokens in zip(texts, every, strict=True) if len(tokens) > length]:
        raise ValueError(f"{task.name}: {long[0]!r} of task.options.phrases has more than task.options.reply tokens")
    return tuple(np.array(tokens + [end] * (length - len(tokens)), np.int32) for tokens in every)


class TextGame:
    """One game. See `marless_language.games.game_task.Game`."""

    player: int | None

    def __init__(self, guard: Guard, rules: Rules, vocabulary: Vocabulary, seed: int) -> None:
        """Begins it. Raises `EnvironmentFault`."""
        self._guard, self._rules, self._vocabulary = guard, rules, vocabulary
        self._draws, self.rewards = Draws(seed), [0.0] * len(rules.roles)
        with self._draws:
            guard.call("reset", num_players=len(rules.roles), seed=seed)
            self._observe()

    def _observe(self) -> None:
        answer = self._guard.call("get_observation")
        self.player, observation = player_number(self._guard, answer, len(self._rules.roles))
        self._text = message_text(self._guard, observation)

    def read(self) -> Sequence[int]:
        """See `Game.read`."""
        return self._vocabulary.encode_plain(self._text)

    def legal(self) -> LegalArray:
        """See `Game.legal`: any text may be said."""
        return np.ones(len(self._rules.allowed), np.bool_)

    def reply(self, tokens: TokenArray) -> None:
        """See `Game.reply`. Raises `EnvironmentFault`."""
        with self._draws:
            answer = self._guard.call("step", line_of(tokens.tolist(), self._vocabulary))
            has_ended = is_over(self._guard, answer)
            self._guard.steps += 1
            if not has_ended:
                self._observe()
                return
        self.player = None

    def close(self) -> None:
        """See `Game.close`. Raises `EnvironmentFault`."""
        with self._draws:
            answer = self._guard.call("close")
        rewards = rewards_by_player(self._guard, answer, self._rules.roles)
        if rewards is not None:
            self.rewards = rewards
        elif self.player is None:
            raise self._guard.fault("close", "returned no rewards of a game that is over; {} says that nobody got any")
