"""A tiny env task that only agents that bootstrap at time limits solve: `toy/corridor`.

Each agent walks its own corridor of `legs` legs with `horizon` cells each. Agents do not meet. It observes its cell as
a one-hot. In each step it takes a reward of 1 and terminates (action 0), or walks to the next cell for no reward
(action 1). Walking on from the last cell gives `prize` and terminates too. An episode starts each agent at the first
cell of a uniformly drawn leg and is truncated after `horizon` steps. Agents cannot stand still, so a truncation always
falls between two legs.

The right values. The problem has no time limit. Sampling only cuts it into pieces (Pardo et al., "Time Limits in
Reinforcement Learning", 2018). With L = ``legs * horizon`` cells and a discount g, always walking on from cell c is
worth ``prize * g ** (L - 1 - c)``. Options are refused if this is less than 1.5 at cell 0 with g = 0.9. So walking on
is right in every cell, and agents that bootstrap from the cell after a truncation learn it.

The wrong values. An agent that treats truncation as termination learns 0 for walking on from the last cell of a leg,
which is less than 1. One cell before it is worth g, and so on. So it takes in all cells but the last leg's.

By hand, for g = 0.9 and the defaults (2 legs of 2 cells, prize 10), the value of walking on in cells 0 to 3::

    right   7.29   8.1   9   10      walks on everywhere
    wrong   0.9    0     9   10      takes in cells 0 and 1

Returns of episodes do not measure success: over `horizon` steps the wrong policy earns more. The env metric `walked` is
the share of an episode's actions that walk on: 1 for the right policy and less for the wrong one.
"""

from typing import Annotated

import msgspec
import numpy as np

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
from marless.functions.environments.episodic import EpisodicEnvironment, agents_of, single_class
from marless.functions.setting_limits import MOST_AGENTS, MOST_STEPS

_GO_ON = 1
_MARGIN, _DISCOUNT = 1.5, 0.9


class CorridorOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of `toy/corridor`. The module explains `prize`."""

    # Cells of a leg and steps of an episode.
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 2
    legs: Annotated[int, msgspec.Meta(ge=2, le=MOST_AGENTS)] = 2
    prize: float = 10.0


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments. Raises `ValueError` for wrong options or a wrong number of agents."""
    return Corridor(agents_of(task, 2, 1, "at least 1 walks"), _options(task), num_envs)


def _options(task: EnvTask) -> CorridorOptions:
    options = options_of(task, CorridorOptions)
    worth = options.prize * _DISCOUNT ** (options.legs * options.horizon - 1)
    if worth < _MARGIN:
        raise ValueError(
            f"{task.name}: task.options: prize is {options.prize}; at the corridor's start it is worth {worth:.3g},"
            f" less than {_MARGIN}"
        )
    return options


class Corridor(EpisodicEnvironment):
    """E environments of corridors. See the module for the rules."""

    def __init__(self, agents: int, options: CorridorOptions, num_envs: int) -> None:
        self._cells = options.legs * options.horizon
        super().__init__(single_class("walker", agents, self._cells, 2, options.horizon), num_envs)
        self._options = options
        self._cell = np.zeros((num_envs, agents), dtype=np.int64)
        self._walked = self._counter()

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        on = self._alive & (actions[0] == _GO_ON)
        done = on & (self._cell == self._cells - 1)
        prizes_taken = self._alive & ~on
        self._cell = self._cell + (on & ~done)
        self._walked += on.sum(axis=1)
        return prizes_taken + done * self._options.prize, prizes_taken | done

    def _env_metrics(self) -> dict[str, RewardArray]:
        return {"walked": self._walked / self._asked}

    def _begin(self, rows: BoolArray) -> None:
        """Legs are drawn for all rows, so that draws do not depend on other environments."""
        legs = self._rng.integers(self._options.legs, size=self._cell.shape)
        self._cell = np.where(rows[:, None], legs * self.spec.horizon, self._cell)
        self._walked[rows] = 0

    def _observe(self) -> Observation:
        observation: FloatArray = np.eye(self._cells, dtype=np.float32)[self._cell] * self._alive[..., None]
        return Observation(values=(observation,), alive=self._alive.copy())
