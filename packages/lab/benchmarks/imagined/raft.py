"""Continuous actions: `imagined/raft`.

Agents at the rim of a round raft, by default four, push it with two numbers from -1 to 1, a force along each axis. The
mean force accelerates the raft, and a force across an agent's own radius turns it. A buoy drifts on a straight line.
In each step all agents lose the raft's distance from the buoy (at most 3), and a tenth of its turning speed. An episode
has 80 steps.

An agent observes the way to the buoy, the velocities of raft and buoy, and the turning speed. Its own radius is the
first axis, so one policy fits all agents.
"""

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    EnvTask,
    Observation,
    RewardArray,
    VectorEnvironment,
)
from marless.functions.environments.episodic import EpisodicEnvironment, agents_of

_HORIZON, _AGENTS, _FARTHEST = 80, 4, 3.0
_DRAG, _PUSH, _TURN, _DRIFT = 0.9, 0.1, 0.1, 0.02


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` environments. Raise `ValueError` without agents."""
    return Raft(agents_of(task, _AGENTS, 1, "at least 1 pushes"), num_envs)


class Raft(EpisodicEnvironment):
    """E environments with the rules of the module. Positions and velocities are ``[E, 2]``, angles ``[E]``."""

    def __init__(self, agents: int, num_envs: int) -> None:
        names = tuple(f"agent_{agent}" for agent in range(agents))
        kind = AgentClass("pusher", tuple(range(agents)), 7, 2, low=(-1.0, -1.0), high=(1.0, 1.0))
        super().__init__(EnvSpec(names, (kind,), _HORIZON), num_envs)
        self.way, self.velocity, self.drift = np.zeros((3, num_envs, 2))
        self.angle, self.turning = np.zeros((2, num_envs))

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        forces = actions[0].astype(np.float64)
        world = _rotated(forces, self._angles()).mean(axis=1)
        self.velocity = _DRAG * self.velocity + _PUSH * world
        self.turning = _DRAG * self.turning + _TURN * forces[..., 1].mean(axis=1)
        self.angle = self.angle + self.turning
        self.way = self.way + self.drift - self.velocity
        paid = -np.minimum(np.linalg.norm(self.way, axis=-1), _FARTHEST) - 0.1 * np.abs(self.turning)
        return np.repeat(paid[:, None], self._alive.shape[1], axis=1), np.zeros_like(self._alive)

    def _angles(self) -> NDArray[np.float64]:
        """The angle of each agent's radius ``[E, N]``."""
        agents = self._alive.shape[1]
        angles: NDArray[np.float64] = self.angle[:, None] + 2 * np.pi * np.arange(agents) / agents
        return angles

    def _begin(self, rows: BoolArray) -> None:
        way, drift = self._rng.uniform(-1, 1, size=(2, *self.way.shape))
        angle = self._rng.uniform(0, 2 * np.pi, size=self.angle.shape)
        self.way = np.where(rows[:, None], way, self.way)
        self.drift = np.where(rows[:, None], _DRIFT * drift, self.drift)
        self.velocity = np.where(rows[:, None], 0.0, self.velocity)
        self.angle, self.turning = np.where(rows, angle, self.angle), np.where(rows, 0.0, self.turning)

    def _observe(self) -> Observation:
        angles = -self._angles()
        seen = [_rotated(arrow[:, None], angles) for arrow in (self.way, self.velocity, self.drift / _DRIFT)]
        turning = np.broadcast_to(self.turning[:, None, None], (*angles.shape, 1))
        return Observation((np.concatenate([*seen, turning], axis=-1, dtype=np.float32),), self._alive.copy())


def _rotated(arrows: NDArray[np.float64], angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """The `arrows` ``[E, N or 1, 2]``, each turned by its angle ``[E, N]``, anticlockwise."""
    cosine, sine = np.cos(angles), np.sin(angles)
    first, second = arrows[..., 0], arrows[..., 1]
    return np.stack([cosine * first - sine * second, sine * first + cosine * second], axis=-1)
