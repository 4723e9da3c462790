"""Small cooperative games of two agents, given by tables of what a pair of actions pays: `matrix/...`.

The pay of a game is common. Returns here are sums over agents, so each agent gets half: the return of an episode is
what the game paid. Both agents see the state they are in as a one-hot, which is the environment's state, too. Every
game ends by its rules, after one step or after two; nothing is drawn.

`matrix/climbing` and `matrix/penalty` (Claus and Boutilier, "The Dynamics of Reinforcement Learning in Cooperative
Multiagent Systems", 1998), one step of three actions each. agent_0 chooses the row, agent_1 the column::

    climbing   11  -30    0      penalty   10    0    k
              -30    7    6                 0    2    0
                0    0    5                 k    0   10

Best: 11 in climbing, by both playing action 0; whoever strays from there pays 30, so learners that average over a
partner who explores go for 7 or 5. Best in penalty: 10, in two corners; who meets in the middle gets 2 for certain,
while two who each aim at another corner get k, an option that is 0 or less.

`matrix/two_step` (Rashid et al., QMIX, 2018), two steps of two actions each. In state 1 agent_0 chooses which game is
played next, state 2A by action 0 or 2B by action 1; that pays nothing, and what agent_1 does there does not matter::

    2A   7   7      2B   0   1
         7   7           1   8

Best: 8, by way of 2B. A sum of two utilities cannot hold 2B: fitted to all four entries alike it is -1.5, 2.5, 2.5 and
6.5, which looks worse than the 7 of 2A. So VDN ends with 7 after full exploration, where QMIX can have 8.
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    EnvTask,
    FloatArray,
    Observation,
    Step,
    VectorEnvironment,
    options_of,
)

_AGENTS = 2


class NoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The game takes no options."""


class PenaltyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`k`: what two agents get who aim at different corners."""

    k: Annotated[float, msgspec.Meta(le=0)] = -100.0


@dataclass(frozen=True)
class Game:
    """`pays` ``[states, A, A]`` and the state that follows, ``[states, A, A]`` or -1 where the game is over."""

    pays: NDArray[np.float64]
    follows: NDArray[np.int64]
    horizon: int


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` copies of a `matrix/...` task; raises `ValueError` for options or agents that the game does not
    have."""
    return Matrix(_game(task), num_envs)


def optimal_return(task: EnvTask) -> float:
    """The best return of an episode, summed over agents: the greatest entry of the tables, which can be reached."""
    return float(_game(task).pays.max())


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


class Matrix:
    """E copies of a game; see the module for the rules."""

    def __init__(self, game: Game, num_envs: int) -> None:
        self.num_envs = num_envs
        self._game = game
        states, actions = game.pays.shape[:2]
        self.spec = EnvSpec(
            agents=tuple(f"agent_{i}" for i in range(_AGENTS)),
            classes=(AgentClass("player", tuple(range(_AGENTS)), states, actions),),
            horizon=game.horizon,
            state_size=states,
        )

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every copy; `rng` is not used."""
        self._state = np.zeros(self.num_envs, dtype=np.int64)
        return self._observe(np.zeros(self.num_envs, dtype=np.bool_))

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Pays each pair of actions and goes on to what follows."""
        place = (self._state, actions[0][:, 0], actions[0][:, 1])
        rewards = np.repeat(self._game.pays[place][:, None] / _AGENTS, _AGENTS, axis=1)
        self._state = self._game.follows[place]
        over = self._state < 0
        self._state = np.where(over, 0, self._state)
        running = np.zeros(self.num_envs, dtype=np.bool_)
        return Step(
            observation=self._observe(running),
            rewards=rewards,
            terminated=np.repeat(over[:, None], _AGENTS, axis=1),
            truncated=running,
            ended=over,
            final=self._observe(over) if over.any() else None,
        )

    def close(self) -> None:
        """Nothing is held."""

    def _observe(self, over: BoolArray) -> Observation:
        """What is seen in the copies' states; nothing is where the game is `over`."""
        state: FloatArray = np.eye(self.spec.state_size, dtype=np.float32)[self._state] * ~over[:, None]
        return Observation(
            values=(np.repeat(state[:, None], _AGENTS, axis=1),),
            alive=np.repeat(~over[:, None], _AGENTS, axis=1),
            state=state,
        )
