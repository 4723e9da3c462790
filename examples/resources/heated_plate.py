"""Two heaters move over a plate of unknown conduction, and a solver computes its temperature.

The solver is slow, and gains from cores: it solves the heat equation for many plates that might be the right one. The
team is paid for a plate that is equally warm, whichever it is. Heaters stand on 36 places, so there are 666 questions,
and most of them cost nothing where answers are kept.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv
from threadpoolctl import threadpool_limits

from marless.functions.encoding import from_json, to_json

CELLS, STEPS, STRIDE = 24, 6, 4
MOVES = STRIDE * np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])
FIRST, LAST = STRIDE // 2, CELLS - STRIDE // 2


def solve(question: bytes, cores: int) -> bytes:
    """Return how unequally warm a plate is with heaters at `places`: the standard deviation of its temperature over its
    mean, on average over `plates`.

    Plates are independent of one another, so the answer is the same to the last bit with any number of cores.
    """
    asked = from_json(question, dict)
    heat = np.zeros((CELLS, CELLS))
    for row, column in asked["places"]:
        heat[row, column] += 1.0
    # numpy's solvers let other threads run, and use several threads by default.
    with threadpool_limits(1), ThreadPoolExecutor(cores) as threads:
        temperatures = list(threads.map(lambda plate: temperature(plate, heat), range(asked["plates"])))
    return to_json(float(np.mean([each.std() / each.mean() for each in temperatures])))


def temperature(plate: int, heat):
    """Return the temperature ``[CELLS²]`` of a plate with a rim of temperature 0."""
    return np.linalg.solve(conduction_of(plate), heat.ravel())


@cache
def conduction_of(plate: int):
    """The conduction of one of the plates that might be the right one: neighbouring cells conduct unequally."""
    return conduction(np.exp(np.random.default_rng(plate).normal(0, 0.7, (CELLS + 2, CELLS + 2))))


def conduction(k):
    """Return the matrix ``[CELLS², CELLS²]`` of finite volumes. `k`, ``[CELLS + 2, CELLS + 2]``, includes the rim."""
    number = np.pad(np.arange(CELLS**2).reshape(CELLS, CELLS), 1, constant_values=-1)
    matrix = np.zeros((CELLS**2, CELLS**2))
    inner = (slice(1, -1), slice(1, -1))
    own = number[inner]
    for shift in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        neighbour, there = (np.roll(each, shift, axis=(0, 1))[inner] for each in (k, number))
        flow = 2 * k[inner] * neighbour / (k[inner] + neighbour)
        matrix[own, own] += flow
        matrix[own[there >= 0], there[there >= 0]] -= flow[there >= 0]
    return matrix


class Plate(ParallelEnv):
    metadata = {"name": "heated_plate"}  # noqa: RUF012 -- as PettingZoo has it
    possible_agents = ("heater_0", "heater_1")
    max_cycles = STEPS

    def __init__(self, resources, plates):
        self.resources, self.plates = resources, plates

    def observation_space(self, agent):
        return Box(0, 1, (2 * len(self.possible_agents) + 1,), np.float32)

    def action_space(self, agent):
        return Discrete(len(MOVES))

    def reset(self, seed=None, options=None):
        self.agents, self.left = [*self.possible_agents], STEPS
        self.places = FIRST + STRIDE * np.random.default_rng(seed).integers(CELLS // STRIDE, size=(len(self.agents), 2))
        self.unequal = self._solved()
        return self._observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        """Moves the heaters, has the plates solved, and shares out by how much their temperatures became more equal."""
        agents, before = self.agents, self.unequal
        self.places = np.clip(self.places + MOVES[[actions[agent] for agent in agents]], FIRST, LAST)
        self.unequal = self._solved()
        self.left -= 1
        over = dict.fromkeys(agents, self.left == 0)
        self.agents = agents if self.left else []
        gain = dict.fromkeys(agents, (before - self.unequal) / len(agents))
        return self._observations(), gain, dict.fromkeys(agents, False), over, {agent: {} for agent in agents}

    def episode_metrics(self):
        return {"unequal": self.unequal}

    def _solved(self):
        (answer,) = self.resources.call(
            "solver", [to_json({"places": sorted(self.places.tolist()), "plates": self.plates})]
        )
        return from_json(answer, float)

    def _observations(self):
        seen = (self.places / (CELLS - 1)).astype(np.float32)
        first_own = {agent: np.roll(seen, -row, axis=0).ravel() for row, agent in enumerate(self.possible_agents)}
        return {agent: np.append(own, np.float32(self.left / STEPS)) for agent, own in first_own.items()}


def make(resources, plates: int = 6) -> ParallelEnv:
    return Plate(resources, plates)
