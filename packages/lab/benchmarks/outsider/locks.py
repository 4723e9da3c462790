"""A sparse reward: `outsider/locks`.

A barge climbs a staircase of locks, by default four. Each lock has a keeper, and its water is low (0), half (1) or full
(2). The barge begins in the lowest lock, and the water of each lock is random.

In each step a keeper waits, fills or drains its lock by one level, or opens its upper gate. The gate is opened rightly
if the keeper's lock is full and the next lock is low. The highest lock leads to a lake, so only its water must be full.
Then a barge in the lock moves on, and all levels stay. A gate that is opened wrongly empties the lock. All gates follow
the levels before the step.

All keepers get a reward of 1 when the barge is in the lake, and the episode ends. No other step has a reward. An
episode has at most 60 steps. The best return is 1 for each keeper, and random play gets about 0.03.

A keeper observes the water of three locks, the lock below, its lock and the lock above, and which of the three has the
barge. It also observes whether the barge is further down, and whether its lock is the lowest or the highest.
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

_HORIZON, _LOCKS = 60, 4
_LOW, _FULL = 0, 2
_WAIT, _FILL, _DRAIN, _OPEN = range(4)


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` environments. Raise `ValueError` for fewer agents than two."""
    return Locks(agents_of(task, _LOCKS, 2, "a staircase has two locks"), num_envs)


class Locks(EpisodicEnvironment):
    """E environments with the rules of the module. `water` is ``[E, N]``, and `barge` ``[E]`` the lock of the barge."""

    def __init__(self, agents: int, num_envs: int) -> None:
        super().__init__(single_class("keeper", agents, 9, 4, _HORIZON), num_envs)
        self.water = np.zeros((num_envs, agents), dtype=np.int64)
        self.barge = self._counter()

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        chosen = actions[0]
        # The lake takes a barge at any time.
        above = np.pad(self.water[:, 1:], ((0, 0), (0, 1)), constant_values=_LOW)
        opened, right = chosen == _OPEN, (self.water == _FULL) & (above == _LOW)
        moves = (opened & right & self._here()).any(axis=1)
        changed = np.clip(self.water + (chosen == _FILL) - (chosen == _DRAIN), _LOW, _FULL)
        self.water = np.where(opened & ~right, _LOW, changed)
        self.barge = self.barge + moves
        arrived = np.repeat((self.barge == chosen.shape[1])[:, None], chosen.shape[1], axis=1)
        return arrived.astype(np.float64), arrived

    def _here(self) -> BoolArray:
        """Return whether the barge is in each lock, ``[E, N]``. It is in none after its arrival."""
        here: BoolArray = self.barge[:, None] == np.arange(self.water.shape[1])
        return here

    def _begin(self, rows: BoolArray) -> None:
        water = self._rng.integers(_FULL + 1, size=self.water.shape)
        self.water = np.where(rows[:, None], water, self.water)
        self.barge = np.where(rows, 0, self.barge)

    def _observe(self) -> Observation:
        here, locks = self._here(), np.arange(self.water.shape[1])
        further_down = self.barge[:, None] < locks - 1
        ends = np.broadcast_to(np.stack([locks == 0, locks == locks[-1]], axis=-1), (*self.water.shape, 2))
        values = np.concatenate(
            [_neighbourhood(self.water), _neighbourhood(here), further_down[..., None], ends],
            axis=-1,
            dtype=np.float32,
        )
        return Observation((values * self._alive[..., None],), self._alive.copy())


def _neighbourhood(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """The values ``[E, N]`` of the lock below, the lock itself and the lock above ``[E, N, 3]``. Outside they are 0."""
    wide = np.pad(values, ((0, 0), (1, 1)))
    return np.stack([wide[:, :-2], values, wide[:, 2:]], axis=-1)
