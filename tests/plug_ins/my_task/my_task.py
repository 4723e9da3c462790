"""A scout and two diggers: only the scout sees where the treasure lies, and only diggers dig.

There are five places. In every step the scout names one, and each digger digs at a place where it did not dig before,
or rests; it sees what the scout named last. A digger has food for two holes: then it is out. Whoever is in play when
the treasure is found gets 1, and the episode is over; `horizon` steps without it are a time limit.

A return above 2.4 shows that the diggers listen: without the scout at most four of the five places are dug.
"""

import msgspec
import numpy as np

from functions.environments.base import AgentClass, EnvSpec, Observation, Step

PLACES, HOLES = 5, 2
DIGGERS = slice(1, None)
ONE_HOT = np.eye(PLACES + 1, PLACES, dtype=np.float32)  # the last row is "no place"


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `task.options` may hold."""

    horizon: int = 6


def make(task, num_envs):
    """`num_envs` copies of the task; a `ValueError` becomes one line for the user."""
    if task.agents not in (None, 3):
        raise ValueError(f"task.agents is {task.agents}; there are a scout and two diggers")
    return Mine(msgspec.convert(task.options, Options), num_envs)


class Mine:
    """E copies, stepped together."""

    def __init__(self, options, num_envs):
        self.num_envs = num_envs
        scout = AgentClass("scout", agents=(0,), observation_size=PLACES, actions=PLACES)
        digger = AgentClass("digger", agents=(1, 2), observation_size=2 * PLACES, actions=PLACES + 1)
        agents = ("scout", "digger_0", "digger_1")
        self.spec = EnvSpec(agents, classes=(scout, digger), horizon=options.horizon, masked=True)

    def reset(self, rng):
        """Starts every copy anew; `rng` is the only source of chance."""
        self._rng = rng
        self._alive = np.ones((self.num_envs, 3), dtype=bool)
        self._dug = np.zeros((self.num_envs, 2, PLACES), dtype=bool)
        self._treasure, self._named, self._steps = (np.zeros(self.num_envs, dtype=int) for _ in range(3))
        self._begin(np.ones(self.num_envs, dtype=bool))
        return self._observe()

    def step(self, actions):
        """`actions` has ``[E, 1]`` for the scout and ``[E, 2]`` for the diggers."""
        named, places = actions[0][:, 0], actions[1]
        before = self._alive
        digs = before[:, DIGGERS] & (places < PLACES)
        copy, digger = np.nonzero(digs)
        self._dug[copy, digger, places[copy, digger]] = True
        found = (digs & (places == self._treasure[:, None])).any(axis=1, keepdims=True)
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
        """There is nothing to free."""

    def _begin(self, rows):
        """A new episode in the copies `rows` ``[E]``."""
        # Drawn for all copies, so that what one of them does changes nothing for the others.
        self._treasure = np.where(rows, self._rng.integers(PLACES, size=self.num_envs), self._treasure)
        self._alive, self._dug = self._alive | rows[:, None], self._dug & ~rows[:, None, None]
        self._named = np.where(rows, PLACES, self._named)
        self._steps = np.where(rows, 0, self._steps)

    def _observe(self):
        """Who is out sees zeros, and may do anything."""
        alive = self._alive[:, :, None]
        told = np.repeat(ONE_HOT[self._named][:, None], 2, axis=1)
        scout = ONE_HOT[self._treasure][:, None] * alive[:, :1]
        digger = np.concatenate([told, self._dug], axis=2, dtype=np.float32) * alive[:, DIGGERS]
        legal = np.concatenate([~self._dug, np.ones((self.num_envs, 2, 1), dtype=bool)], axis=2)
        masks = (np.ones((self.num_envs, 1, PLACES), dtype=bool), legal | ~alive[:, DIGGERS])
        return Observation((scout, digger), self._alive.copy(), masks)
