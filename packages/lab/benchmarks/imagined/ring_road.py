"""Many agents: `imagined/ring_road`.

Cars drive on a ring road of length 1, by default 20. In each step a car brakes, keeps its speed or accelerates. It is
paid its speed (0 to 1), less 1 if it is nearer than half the usual distance to the car ahead. Such a car also stops.
Nobody is paid for the speed of others, and one car that stops stops the cars behind it.

A car observes its own speed, and of the cars ahead and behind the distance and the speed. The unit of a distance is the
usual distance. An episode has 100 steps. With equal distances and the same full speed, a car gets the best
reward of 1 in every step.
"""

import numpy as np

from marless.functions.environments.base import (
    ActionArray,
    BoolArray,
    EnvTask,
    Observation,
    RewardArray,
    VectorEnvironment,
)
from marless.functions.environments.episodic import EpisodicEnvironment, agents_of, single_class

_HORIZON, _AGENTS = 100, 20
# Changes of the speed by action, and the usual distances that a car at full speed passes in a step.
_CHANGES, _STRIDE, _NEAR = np.array([-0.3, 0.0, 0.1]), 0.2, 0.5


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` environments. Raise `ValueError` for fewer agents than two."""
    return RingRoad(agents_of(task, _AGENTS, 2, "a car follows another"), num_envs)


class RingRoad(EpisodicEnvironment):
    """E environments with the rules of the module. Car i follows car i + 1."""

    def __init__(self, agents: int, num_envs: int) -> None:
        super().__init__(single_class("car", agents, 5, len(_CHANGES), _HORIZON), num_envs)
        self.gaps = np.ones((num_envs, agents))
        self.speeds = np.zeros((num_envs, agents))

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        self.speeds = np.clip(self.speeds + _CHANGES[actions[0]], 0, 1)
        # A car cannot pass the car ahead.
        strides = np.minimum(_STRIDE * self.speeds, self.gaps)
        self.gaps = self.gaps - strides + np.roll(strides, -1, axis=1)
        near = self.gaps < _NEAR
        rewards = self.speeds - near
        self.speeds = np.where(near, 0.0, self.speeds)
        return rewards, np.zeros_like(self._alive)

    def _begin(self, rows: BoolArray) -> None:
        gaps = 1 + self._rng.uniform(-0.4, 0.4, size=self.gaps.shape)
        speeds = self._rng.uniform(0, 1, size=self.gaps.shape)
        self.gaps = np.where(rows[:, None], gaps / gaps.mean(axis=1, keepdims=True), self.gaps)
        self.speeds = np.where(rows[:, None], speeds, self.speeds)

    def _observe(self) -> Observation:
        ahead, behind = np.roll(self.speeds, -1, axis=1), np.roll(self.speeds, 1, axis=1)
        values = np.stack([self.speeds, self.gaps, ahead, np.roll(self.gaps, 1, axis=1), behind], axis=-1)
        return Observation((values.astype(np.float32),), self._alive.copy())
