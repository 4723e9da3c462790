"""Many agents: `outsider/buckets`.

People form rows of four. By default there are four rows. The first person of the first row is at a well. A person
of the last row, chosen at random, is at a fire. Each person holds one bucket, full or empty. In each step a person
waits, works, or turns up, down, left or right. Two neighbours who turn to each other swap their buckets. Work at the
well fills the bucket, and work at the fire empties it.

All people get a reward of 1 for each full bucket that is emptied on the fire. An episode has 60 steps, and buckets
begin full or empty at random. The person at the fire needs a step to swap, so at best a bucket is emptied in every
second step. The return is at most 30 for each person, and random play gets about 1.4.

A person observes five buckets: its own, and the buckets of its four neighbours. Full ones are 1, empty ones -1, and a
neighbour that does not exist is 0. The person also observes how many columns and rows away the well and the fire are,
and whether it is at one of them.
"""

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    BoolArray,
    EnvTask,
    Observation,
    RewardArray,
    VectorEnvironment,
)
from marless.functions.environments.episodic import EpisodicEnvironment, agents_of, single_class

_HORIZON, _ROW, _AGENTS = 60, 4, 16
_WAIT, _WORK = range(2)
# Columns and rows of the neighbour that a person turns to, by action.
_TURNS = np.array([[0, 0], [0, 0], [0, -1], [0, 1], [-1, 0], [1, 0]])


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` environments. Raise `ValueError` without two full rows of agents."""
    agents = agents_of(task, _AGENTS, 2 * _ROW, f"people form at least two rows of {_ROW}")
    if agents % _ROW:
        raise ValueError(f"{task.name}: task.agents is {agents}, and people form rows of {_ROW}")
    return Buckets(agents, num_envs)


class Buckets(EpisodicEnvironment):
    """E environments with the rules of the module. `full` is ``[E, N]``, row by row, and `fire` ``[E]`` a person."""

    def __init__(self, agents: int, num_envs: int) -> None:
        super().__init__(single_class("person", agents, 11, len(_TURNS), _HORIZON), num_envs)
        self.full = np.zeros((num_envs, agents), dtype=np.bool_)
        self.fire = self._counter()
        self._people = np.arange(agents)
        self._places = np.stack([self._people % _ROW, self._people // _ROW], axis=-1)
        self._partners = _partners(self._places)

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        partners = self._partners[self._people, actions[0]]
        mutual = np.take_along_axis(partners, partners, axis=1) == self._people
        works, at_fire = actions[0] == _WORK, self.fire[:, None] == self._people
        emptied = (self.full & works & at_fire).any(axis=1)
        full = np.take_along_axis(self.full, np.where(mutual, partners, self._people), axis=1)
        self.full = (full | works & (self._people == 0)) & ~(works & at_fire)
        return np.repeat(emptied[:, None], len(self._people), axis=1).astype(np.float64), np.zeros_like(self._alive)

    def _begin(self, rows: BoolArray) -> None:
        full = self._rng.integers(2, size=self.full.shape) == 1
        fire = len(self._people) - 1 - self._rng.integers(_ROW, size=self.num_envs)
        self.full, self.fire = np.where(rows[:, None], full, self.full), np.where(rows, fire, self.fire)

    def _observe(self) -> Observation:
        buckets = np.where(self.full, 1, -1)
        turned_to = self._partners[:, 2:]
        neighbours = np.where(turned_to == self._people[:, None], 0, buckets[:, turned_to])
        well = np.broadcast_to(-self._places, (self.num_envs, *self._places.shape))
        fire = self._places[self.fire][:, None] - self._places
        at = np.stack([(way == 0).all(axis=-1) for way in (well, fire)], axis=-1)
        values = np.concatenate([buckets[..., None], neighbours, well, fire, at], axis=-1, dtype=np.float32)
        return Observation((values,), self._alive.copy())


def _partners(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The person that each person at `places` ``[N, 2]`` turns to, by action ``[N, actions]``.

    Without a neighbour there, and with the other actions, a person turns to itself.
    """
    targets = places[:, None] + _TURNS
    there = (targets >= 0).all(axis=-1) & (targets <= places[-1]).all(axis=-1)
    return np.where(there, targets[..., 0] + _ROW * targets[..., 1], np.arange(len(places))[:, None])
