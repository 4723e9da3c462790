"""A tiny task that is only solved by who knows that a time limit is no end: `toy/corridor`.

Each agent walks a corridor of its own, of `legs` legs of `horizon` cells each; no agent meets another. It sees its cell
as a one-hot. In each step it takes what lies there, which is worth 1 and ends its walk by the rules (action 0), or goes
on to the next cell (action 1), which is worth nothing; but going on from the last cell is worth `prize`, and ends the
walk by the rules too. An episode starts each agent at the first cell of a leg, any of them alike, and cuts those that
still walk after `horizon` steps. Nobody stands still, so a cut always falls on the way from one leg to the next.

What is right. The task itself has no time limit; it is only learned in pieces (Pardo et al., "Time Limits in
Reinforcement Learning", 2018). With L = ``legs * horizon`` cells and a discount g, going on from cell c and ever after
is worth ``prize * g ** (L - 1 - c)``, and the task refuses to exist where that is less than 1.5 at cell 0 with g = 0.9.
So going on is right in every cell, and who bootstraps from the cell after a cut learns it.

What is wrong. Who takes a cut for an end learns that going on from the last cell of a leg is worth 0, which is less
than 1; then one cell before it is worth g, and so on. So it takes in every cell but those of the last leg.

By hand, for the defaults (2 legs of 2 cells, prize 10) and g = 0.9, the value of going on in cells 0 to 3::

    right   7.29   8.1   9   10      goes on everywhere
    wrong   0.9    0     9   10      takes in cells 0 and 1

The return of an episode says nothing here: over `horizon` steps the wrong player earns more. The env metric `walked` is
the share of an episode's decisions that were to go on; it is 1 for the right player and less for the wrong one.
"""

from typing import Annotated

import msgspec
import numpy as np

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

_GO_ON = 1
_MARGIN, _DISCOUNT = 1.5, 0.9


class CorridorOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`horizon`: cells of a leg and steps of an episode. `legs`: how many there are. `prize`: see the module."""

    horizon: Annotated[int, msgspec.Meta(ge=1)] = 2
    legs: Annotated[int, msgspec.Meta(ge=2)] = 2
    prize: float = 10.0


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` copies of `toy/corridor`; raises `ValueError` for options or agents that it does not have."""
    agents = 2 if task.agents is None else task.agents
    if agents < 1:
        raise ValueError(f"{task.name}: task.agents is {agents}; at least 1 walks")
    return Corridor(agents, _options(task), num_envs)


def _options(task: EnvTask) -> CorridorOptions:
    options = options_of(task, CorridorOptions)
    worth = options.prize * _DISCOUNT ** (options.legs * options.horizon - 1)
    if worth < _MARGIN:
        raise ValueError(
            f"{task.name}: task.options: prize is {options.prize}; at the corridor's start it is worth {worth:.3g},"
            f" less than {_MARGIN}"
        )
    return options


class Corridor:
    """E copies of the corridors; see the module for the rules."""

    def __init__(self, agents: int, options: CorridorOptions, num_envs: int) -> None:
        self.num_envs = num_envs
        self._options = options
        self._cells = options.legs * options.horizon
        self.spec = EnvSpec(
            agents=tuple(f"agent_{i}" for i in range(agents)),
            classes=(AgentClass("walker", tuple(range(agents)), self._cells, 2),),
            horizon=options.horizon,
        )

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every copy."""
        self._rng = rng
        shape = (self.num_envs, len(self.spec.agents))
        self._cell, self._alive = np.zeros(shape, dtype=np.int64), np.ones(shape, dtype=np.bool_)
        self._steps, self._asked, self._walked = (np.zeros(self.num_envs, dtype=np.int64) for _ in range(3))
        self._restart(np.ones(self.num_envs, dtype=np.bool_))
        return self._observe()

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Lets every agent that still walks take or go on."""
        before = self._alive
        on = before & (actions[0] == _GO_ON)
        done = on & (self._cell == self._cells - 1)
        taken = before & ~on
        rewards = taken + done * self._options.prize
        terminated = taken | done
        self._alive = before & ~terminated
        self._cell = self._cell + (on & ~done)
        self._steps += 1
        self._asked += before.sum(axis=1)
        self._walked += on.sum(axis=1)
        left = self._alive.any(axis=1)
        truncated = left & (self._steps == self.spec.horizon)
        ended = truncated | ~left
        env_metrics = {"walked": self._walked / self._asked}
        final = self._observe() if ended.any() else None
        self._restart(ended)
        return Step(self._observe(), rewards, terminated, truncated, ended, final, env_metrics)

    def close(self) -> None:
        """Nothing is held."""

    def _restart(self, rows: BoolArray) -> None:
        """New episodes in `rows`. Legs are drawn for all, so that what a copy draws does not depend on the others."""
        legs = self._rng.integers(self._options.legs, size=self._cell.shape)
        self._cell = np.where(rows[:, None], legs * self.spec.horizon, self._cell)
        self._alive = self._alive | rows[:, None]
        for counter in (self._steps, self._asked, self._walked):
            counter[rows] = 0

    def _observe(self) -> Observation:
        seen: FloatArray = np.eye(self._cells, dtype=np.float32)[self._cell] * self._alive[..., None]
        return Observation(values=(seen,), alive=self._alive.copy())
