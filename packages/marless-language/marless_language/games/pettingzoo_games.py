"""PettingZoo's games of turns, `AECEnv`, as games of tokens.

An action is one token, the character of its number: 0 to 9, then A to Z and a to z. A player reads the text from the
environment's method `text_of` for an agent. Without it, the player reads the numbers of its observation, encoded like
for a network, a character each. Rewards are summed over the game. `task.options` are the factory's keyword arguments,
and `horizon`, the most turns of a game, and `sides`, as for networks. `prompt` is the most tokens of a text that is
read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import EnvTask, Unsupported
from marless.functions.environments.pettingzoo.agents import Agent, agents_of, sides_of
from marless.functions.environments.pettingzoo.factory import build
from marless.functions.environments.pettingzoo.guard import Guard, one_line
from marless.functions.environments.pettingzoo.horizon import horizon_of
from marless.functions.environments.pettingzoo.turns import TurnEnvironment
from marless.functions.errors import foreign_errors
from marless_language.games.draws import Draws
from marless_language.games.game_task import GameTask, Rules
from marless_language.games.texts import CHARACTERS, FILL, NUMERALS, count_of, without_options
from marless_language.protocol import LegalArray, TokenArray, Vocabulary
from marless_language.tasks.prompts import numbers_of, single_tokens


def make(task: EnvTask, factory: Callable[..., Any], tokenizer: Vocabulary | None) -> GameTask:
    """Return the task with the vocabulary of a base, or with its default vocabulary.

    Raises `ValueError` for a vocabulary without a token for each numeral, and the errors of `adapter.make` for the same
    environments with networks.
    """
    inner, vocabulary = without_options(task, "prompt"), tokenizer or CHARACTERS
    guard = _guard(inner, factory)
    agents, numerals = agents_of(task.name, guard, joint=False), single_tokens(vocabulary, [*NUMERALS])
    actions = max(_actions(task, agent) for agent in agents)
    rules = Rules(
        roles=tuple(agent.name for agent in agents),
        sides=sides_of(task.name, [agent.name for agent in agents], task.options.get("sides", "")),
        turns=horizon_of(task, guard.environment, guard.environment.game, factory).steps,
        prompt=_prompt(task, guard, agents),
        fill=int(single_tokens(vocabulary, [FILL])[0]),
        allowed=np.sort(numerals[:actions]),
    )
    places = np.searchsorted(rules.allowed, numerals[:actions])
    board = Board(tuple(agents), vocabulary, numerals, rules.allowed, places)
    guard.close()

    def begin(seed: int) -> PettingZooGame:
        with Draws(seed):
            guard = _guard(inner, factory)
        return PettingZooGame(guard, board, seed)

    return GameTask(vocabulary, rules, begin)


def _guard(task: EnvTask, factory: Callable[..., Any]) -> Guard:
    environment = build(task, factory)
    if not isinstance(environment, TurnEnvironment):
        raise Unsupported(f"{task.name}: its agents act at once; those who speak take turns, as in an AECEnv")
    return Guard(task.name, environment)


def _actions(task: EnvTask, agent: Agent) -> int:
    """Return the number of an agent's actions, which is one choice."""
    action = agent.codec.action
    if action.continuous or action.branches or not 1 < action.actions <= len(NUMERALS):
        raise Unsupported(
            f"{task.name}: agent '{agent.name}' does not choose among 2 to {len(NUMERALS)} actions, which are a token"
            " each"
        )
    return action.actions


def _prompt(task: EnvTask, guard: Guard, agents: Sequence[Agent]) -> int:
    if hasattr(guard.environment.game, "text_of"):
        return count_of(task, "prompt", "the most tokens of a text that is read")
    return max(agent.codec.observation.size for agent in agents)


@dataclass(frozen=True)
class Board:
    """The common properties of all games."""

    agents: tuple[Agent, ...]
    vocabulary: Vocabulary
    numerals: TokenArray
    allowed: TokenArray
    places: NDArray[np.intp]
    """Of the numeral of each action among the allowed tokens."""


class PettingZooGame:
    """One game. See `marless_language.games.game_task.Game`."""

    def __init__(self, guard: Guard, board: Board, seed: int) -> None:
        """Begins it. Raises `EnvironmentFault`."""
        self._guard, self._board, self._draws = guard, board, Draws(seed)
        self._places = {agent.key: place for place, agent in enumerate(board.agents)}
        self.rewards = [0.0] * len(board.agents)
        with self._draws:
            self._look(guard.call("reset", seed)[0])

    def _look(self, observations: dict[Any, Any]) -> None:
        """Keep the observation of the player of this turn."""
        environment, self.player = self._guard.environment, None
        if environment.agents:
            key = environment.game.agent_selection
            if key not in self._places:
                raise self._guard.fault("agent_selection", f"it is the turn of {one_line(key, 40)}, whom there is not")
            self.player = self._places[key]
            with self._guard.space_errors("observe"):
                self._seen = self._agent.codec.encode(key, observations[key])

    @property
    def _agent(self) -> Agent:
        assert self.player is not None  # an ended game asks no player
        return self._board.agents[self.player]

    def read(self) -> Sequence[int]:
        """See `Game.read`. Raises `EnvironmentFault` for numbers that have no numeral each."""
        game, key = self._guard.environment.game, self._agent.key
        if hasattr(game, "text_of"):
            return self._board.vocabulary.encode_plain(self._text_of(game, key))
        values = self._seen.rows[0]
        if (values % 1 != 0).any() or values.min() < 0 or values.max() >= len(NUMERALS):
            raise self._guard.fault(
                "observe",
                f"what agent '{key}' observes is not made of whole numbers from 0 to {len(NUMERALS) - 1}, a token each;"
                " give the environment a method text_of(agent) that returns what is read",
            )
        return [int(token) for token in self._board.numerals[values.astype(np.int64)]]

    def _text_of(self, game: Any, key: Any) -> str:
        with self._draws:
            try:
                text = game.text_of(key)
            except foreign_errors() as error:
                raise self._guard.fault_of("text_of", error) from error
        if not isinstance(text, str):
            raise self._guard.fault("text_of", f"returned {type(text).__name__} for agent '{key}', not a text")
        return text

    def legal(self) -> LegalArray:
        """See `Game.legal`."""
        mask, legal = self._seen.legal, np.zeros(len(self._board.allowed), np.bool_)
        assert mask is not None  # games of turns have one
        legal[self._board.places[np.flatnonzero(mask[0])]] = True
        return legal

    def reply(self, tokens: TokenArray) -> None:
        """See `Game.reply`. Raises `EnvironmentFault`."""
        number = int(numbers_of(tokens, self._board.numerals)[0])
        action = self._agent.codec.decode(np.array([number]), ())
        # The other players' actions have no effect, but their observations are asked for.
        with self._draws:
            observations, rewards, *_ = self._guard.call("step", dict.fromkeys(self._guard.environment.agents, action))
            self._guard.steps += 1
            for key, reward in rewards.items():
                self.rewards[self._places[key]] += self._guard.number("step", reward, f"the reward of agent '{key}'")
            self._look(observations)

    def close(self) -> None:
        """See `Game.close`."""
        with self._draws:
            self._guard.close()
