"""A task with a reward that is noisy only for agents that are nearly right: `toy/dial`.

In every step each agent sees one of `targets` targets as a one-hot, drawn uniformly, and turns its dial to one of
``sectors * notches`` positions. Position p is notch ``p modulo notches`` of sector ``p // notches``. Target t is right
in sector ``t modulo sectors``, and there at notch ``t modulo notches``.

In each step an agent in a wrong sector gets minus half the number of sectors between it and the right one, without
noise. In the right sector it gets `edge` at the right notch and 0 at the others, plus normal noise of standard
deviation `noise`.

So at first a few steps tell agents where to go: the signal, half a unit and more, is free of noise. Near the optimum
the signal is `edge`, and noise many times larger hides it: a mean of n steps knows it to ``noise / sqrt(n)``. Few
rollouts a round are enough early, late many are needed. All agents have the same right notch.

The best return is ``agents * horizon * edge`` on average. All sectors right and notches at random give that divided by
`notches`. Env metrics: `sector` and `notch` are the shares of an episode's positions in the right sector, and at the
right notch of it.
"""

from typing import Annotated

import msgspec
import numpy as np

from marless.functions.environments.base import ActionArray, BoolArray, EnvTask, Observation, RewardArray, options_of
from marless.functions.environments.episodic import EpisodicEnvironment, agents_of, single_class
from marless.functions.setting_limits import LARGEST, MOST_AGENTS, MOST_STEPS

_AGENTS = 4


class DialOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of `toy/dial`."""

    # Number of targets.
    targets: Annotated[int, msgspec.Meta(ge=1, le=MOST_AGENTS)] = 12
    # Sectors of the dial, and notches of a sector.
    sectors: Annotated[int, msgspec.Meta(ge=1, le=MOST_AGENTS)] = 4
    notches: Annotated[int, msgspec.Meta(ge=1, le=MOST_AGENTS)] = 3
    # Reward at the right notch, and the standard deviation of rewards in the right sector.
    edge: float = 0.5
    noise: Annotated[float, msgspec.Meta(ge=0, le=LARGEST)] = 8.0
    # Steps of an episode.
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 25


def make(task: EnvTask, num_envs: int) -> "Dial":
    """`num_envs` environments. Raises `ValueError` for wrong options or a wrong number of agents."""
    return Dial(agents_of(task, _AGENTS, 1, "at least 1 turns its dial"), options_of(task, DialOptions), num_envs)


class Dial(EpisodicEnvironment):
    """E environments, which all end together. See the module for the rules."""

    def __init__(self, agents: int, options: DialOptions, num_envs: int) -> None:
        positions = options.sectors * options.notches
        super().__init__(single_class("dial", agents, options.targets, positions, options.horizon), num_envs)
        self._options = options
        self._one_hot = np.eye(options.targets, dtype=np.float32)
        self._target = np.zeros((num_envs, agents), dtype=np.int64)
        self._near, self._right = self._counter(), self._counter()

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        """Noise is drawn for every agent, so that draws do not depend on positions."""
        options = self._options
        sector, notch = np.divmod(actions[0], options.notches)
        away = np.abs(sector - self._target % options.sectors)
        near = away == 0
        right = near & (notch == self._target % options.notches)
        noise = options.noise * self._rng.standard_normal(away.shape)
        self._near += near.sum(axis=1)
        self._right += right.sum(axis=1)
        return np.where(near, right * options.edge + noise, -0.5 * away), ~self._alive

    def _env_metrics(self) -> dict[str, RewardArray]:
        return {"sector": self._near / self._asked, "notch": self._right / self._asked}

    def _begin(self, rows: BoolArray) -> None:
        self._near[rows] = self._right[rows] = 0
        self._draw(rows)

    def _draw(self, rows: BoolArray) -> None:
        shape = (int(rows.sum()), self._alive.shape[1])
        self._target[rows] = self._rng.integers(self._options.targets, size=shape)

    def _observe(self) -> Observation:
        return Observation(values=(self._one_hot[self._target],), alive=self._alive)
