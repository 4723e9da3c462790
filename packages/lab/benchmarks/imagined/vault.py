"""A sparse reward: `imagined/vault`.

Agents walk in a square of five cells a side. The vault is in the centre. It opens while two agents stand on the two
switches, in opposite corners. If an agent is inside, all agents get a reward of 1, and the episode ends. No other step
has a reward. Agents begin in random cells.

An agent observes its cell, the cells of the others, and which switches are pressed. Cells are from -1 to 1. Actions:
stay, up, down, left, right. The best return is 1 for each agent.
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

_SIZE, _HORIZON, _AGENTS = 5, 60, 3
_MOVES = np.array([[0, 0], [0, 1], [0, -1], [-1, 0], [1, 0]])


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` environments. Raise `ValueError` for fewer agents than three."""
    return Vault(agents_of(task, _AGENTS, _AGENTS, "two press switches, and one enters"), num_envs)


class Vault(EpisodicEnvironment):
    """E environments with the rules of the module."""

    def __init__(self, agents: int, num_envs: int) -> None:
        super().__init__(single_class("thief", agents, 2 * agents + 2, len(_MOVES), _HORIZON), num_envs)
        self.cells = np.zeros((num_envs, agents, 2), dtype=np.int64)

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        self.cells = np.clip(self.cells + _MOVES[actions[0]], 0, _SIZE - 1)
        inside = (self.cells == _SIZE // 2).all(axis=-1).any(axis=-1)
        opened = np.broadcast_to((self._pressed().all(axis=-1) & inside)[:, None], self._alive.shape)
        return opened.astype(np.float64), opened.copy()

    def _pressed(self) -> BoolArray:
        """Return which of the two switches are pressed, ``[E, 2]``."""
        corners = [(self.cells == corner).all(axis=-1).any(axis=-1) for corner in (0, _SIZE - 1)]
        return np.stack(corners, axis=-1)

    def _begin(self, rows: BoolArray) -> None:
        cells = self._rng.integers(_SIZE, size=self.cells.shape)
        self.cells = np.where(rows[:, None, None], cells, self.cells)

    def _observe(self) -> Observation:
        agents = self.cells.shape[1]
        order = [[agent, *(other for other in range(agents) if other != agent)] for agent in range(agents)]
        places = 2 * self.cells[:, order].reshape(self.num_envs, agents, -1) / (_SIZE - 1) - 1
        pressed = np.repeat(self._pressed()[:, None], agents, axis=1)
        values = np.concatenate([places, pressed], axis=-1, dtype=np.float32) * self._alive[..., None]
        return Observation((values,), self._alive.copy())
