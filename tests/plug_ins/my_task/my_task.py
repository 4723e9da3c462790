"""A scout and two diggers: only the scout sees which cell holds the treasure, and only diggers dig.

There are five cells. In every step the scout names one, and each digger digs in a cell where it did not dig before,
or rests; it sees what the scout named last. A digger has food for two holes: then it is out. Every agent in play when
the treasure is found gets 1, and the episode ends; after `horizon` steps without it the episode is truncated.

A return above 2.4 shows that the diggers listen: without the scout at most four of the five cells are dug.
"""

import msgspec
import numpy as np

from marless.environments import AgentClass, EnvSpec, Observation, Step

CELLS, HOLES = 5, 2
DIGGERS = slice(1, None)
ONE_HOT = np.eye(CELLS + 1, CELLS, dtype=np.float32)  # the last row is "no cell"


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `task.options` may hold."""

    horizon: int = 6


def make(task, num_envs):
    """`num_envs` environments of the task; a `ValueError` becomes one line for the user."""
    if task.agents not in (None, 3):
        raise ValueError(f"task.agents is {task.agents}; there are a scout and two diggers")
    return Mine(msgspec.convert(task.options, Options), num_envs)


class Mine:
    """E environments, stepped together."""

    def __init__(self, options, num_envs):
        self.num_envs = num_envs
        scout = AgentClass("scout", agents=(0,), observation_size=CELLS, actions=CELLS)
        digger = AgentClass("digger", agents=(1, 2), observation_size=2 * CELLS, actions=CELLS + 1)
        agents = ("scout", "digger_0", "digger_1")
        self.spec = EnvSpec(agents, classes=(scout, digger), horizon=options.horizon, masked=True)

    def reset(self, rng):
        """Resets every environment; `rng` is the only source of randomness."""
        self._rng = rng
        self._alive = np.ones((self.num_envs, 3), dtype=bool)
        self._dug = np.zeros((self.num_envs, 2, CELLS), dtype=bool)
        self._treasure, self._named, self._steps = (np.zeros(self.num_envs, dtype=int) for _ in range(3))
        self._begin(np.ones(self.num_envs, dtype=bool))
        return self._observe()

    def step(self, actions):
        """`actions` has ``[E, 1]`` for the scout and ``[E, 2]`` for the diggers."""
        named, cells = actions[0][:, 0], actions[1]
        before = self._alive
        digs = before[:, DIGGERS] & (cells < CELLS)
        copy, digger = np.nonzero(digs)
        self._dug[copy, digger, cells[copy, digger]] = True
        found = (digs & (cells == self._treasure[:, None])).any(axis=1, keepdims=True)
        terminated = before & found
        terminated[:, DIGGERS] |= before[:, DIGGERS] & (self._dug.sum(axis=2) == HOLES)
        self._alive = before & ~terminated
        self._named = named.copy()
        self._steps += 1
        truncated = self._alive.any(axis=1) & (self._steps == self.spec.horizon)
        ended = truncated | ~self._alive.any(axis=1)
        final = self._observe() if ended.any() else None
        self._begin(ended)
        return Step(self._observe(), (before & found).astype(float), terminated, truncated, ended, final)

    def close(self):
        """Holds nothing to free."""

    def render(self, index):
        """Optional: environment `index` as ``[H, W, 3]``; dug cells dark, the treasure red, the cell named below."""
        cells = np.full((2, CELLS, 3), 255, dtype=np.uint8)
        cells[0, self._dug[index].any(axis=0)] = (90, 80, 70)
        cells[0, self._treasure[index]] = (220, 60, 60)
        if self._named[index] < CELLS:
            cells[1, self._named[index]] = (60, 60, 220)
        return cells.repeat(40, axis=0).repeat(40, axis=1)

    def save(self):
        """Optional, with `resume`: all that later steps depend on, for rounds shorter than an episode."""
        names = ("_treasure", "_alive", "_dug", "_named", "_steps")
        return {name: getattr(self, name).copy() for name in names}

    def resume(self, saved, rng):
        """Goes on from `saved`, with `rng` as the generator from here on."""
        self._rng = rng
        for name, array in saved.items():
            setattr(self, name, array.copy())
        return self._observe()

    def _begin(self, rows):
        """Starts a new episode in the environments `rows` ``[E]``."""
        # Drawn for all environments, so that the draws of one do not depend on the others.
        self._treasure = np.where(rows, self._rng.integers(CELLS, size=self.num_envs), self._treasure)
        self._alive, self._dug = self._alive | rows[:, None], self._dug & ~rows[:, None, None]
        self._named = np.where(rows, CELLS, self._named)
        self._steps = np.where(rows, 0, self._steps)

    def _observe(self):
        """Agents that are out observe zeros, and all their actions are legal."""
        alive = self._alive[:, :, None]
        message = np.repeat(ONE_HOT[self._named][:, None], 2, axis=1)
        scout = ONE_HOT[self._treasure][:, None] * alive[:, :1]
        digger = np.concatenate([message, self._dug], axis=2, dtype=np.float32) * alive[:, DIGGERS]
        legal = np.concatenate([~self._dug, np.ones((self.num_envs, 2, 1), dtype=bool)], axis=2)
        masks = (np.ones((self.num_envs, 1, CELLS), dtype=bool), legal | ~alive[:, DIGGERS])
        return Observation((scout, digger), self._alive.copy(), masks)
