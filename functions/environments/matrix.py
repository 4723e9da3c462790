"""Cooperative matrix games of two agents: `matrix/...`.

Each agent gets half of the common pay-off, so the return of an episode (a sum over agents) is the pay-off of the game.
Both agents observe the state as a one-hot, which is the global state, too. Every game terminates after one step or two.
Nothing is random.

`matrix/climbing` and `matrix/penalty` have one step of three actions each (Claus and Boutilier, "The Dynamics of
Reinforcement Learning in Cooperative Multiagent Systems", 1998).

    climbing   11  -30    0      penalty   10    0    k
              -30    7    6                 0    2    0
                0    0    5                 k    0   10

Best in climbing: 11, by both playing action 0. A single deviation costs 30, so learners that average over an exploring
partner prefer 7 or 5. Best in penalty: 10, in two corners. The middle gives a certain 2, while agents that aim at
different corners get k, an option that is 0 or less.

`matrix/two_step` (Rashid et al., QMIX, 2018), two steps of two actions each. In state 1 agent_0 chooses the game of the
next step, 2A by action 0 or 2B by action 1. The choice pays 0, and the action of agent_1 has no effect::

    2A   7   7      2B   0   1
         7   7           1   8

Best: 8, through 2B. A sum of two utilities cannot represent 2B. Fitted to all four entries with equal weights it is
-1.5, 2.5, 2.5 and 6.5, which is less than the 7 of 2A. So VDN ends with 7 after full exploration, where QMIX can reach
8.
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    BoolArray,
    EnvTask,
    FloatArray,
    Observation,
    RewardArray,
    VectorEnvironment,
    options_of,
)
from marless.functions.environments.episodic import EpisodicEnvironment, single_class

_AGENTS = 2


class NoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The game takes no options."""


class PenaltyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of `matrix/penalty`."""

    # Pay-off of agents that aim at different corners.
    k: Annotated[float, msgspec.Meta(le=0)] = -100.0


@dataclass(frozen=True)
class Game:
    """`pays` ``[states, A, A]`` and the state that follows, ``[states, A, A]`` or -1 where the game is over."""

    pays: NDArray[np.float64]
    follows: NDArray[np.int64]
    horizon: int


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments. Raises `ValueError` for wrong options or a wrong number of agents."""
    return Matrix(_game(task), num_envs)


def _game(task: EnvTask) -> Game:
    if task.agents not in (None, _AGENTS):
        raise ValueError(f"{task.name}: task.agents is {task.agents}; the game is for {_AGENTS}")
    if task.name == "matrix/penalty":
        k = options_of(task, PenaltyOptions).k
        return _one_shot([[10, 0, k], [0, 2, 0], [k, 0, 10]])
    options_of(task, NoOptions)
    if task.name == "matrix/climbing":
        return _one_shot([[11, -30, 0], [-30, 7, 6], [0, 0, 5]])
    if task.name == "matrix/two_step":
        return _two_step()
    raise ValueError(f"no game is named '{task.name}'")


def _one_shot(table: list[list[float]]) -> Game:
    pays = np.array([table], dtype=np.float64)
    return Game(pays, np.full(pays.shape, -1), horizon=1)


def _two_step() -> Game:
    pays = np.array([[[0, 0], [0, 0]], [[7, 7], [7, 7]], [[0, 1], [1, 8]]], dtype=np.float64)
    follows = np.full(pays.shape, -1)
    follows[0] = [[1, 1], [2, 2]]
    return Game(pays, follows, horizon=2)


class Matrix(EpisodicEnvironment):
    """E environments of a game. See the module for the rules."""

    def __init__(self, game: Game, num_envs: int) -> None:
        states, actions = game.pays.shape[:2]
        super().__init__(single_class("player", _AGENTS, states, actions, game.horizon, states), num_envs)
        self._game = game
        self._state = self._counter()

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        entry = (self._state, actions[0][:, 0], actions[0][:, 1])
        self._state = self._game.follows[entry]
        rewards, over = self._game.pays[entry] / _AGENTS, self._state < 0
        return np.repeat(rewards[:, None], _AGENTS, axis=1), np.repeat(over[:, None], _AGENTS, axis=1)

    def _begin(self, rows: BoolArray) -> None:
        self._state[rows] = 0

    def _observe(self) -> Observation:
        state: FloatArray = np.eye(self.spec.state_size, dtype=np.float32)[self._state] * self._alive[:, :1]
        return Observation(values=(np.repeat(state[:, None], _AGENTS, axis=1),), alive=self._alive, state=state)
