"""A game that inherits from nothing, and its factories, for `named_factories`."""

import numpy as np
from gymnasium.spaces import Box, Discrete


class Game:
    def __init__(self, size=2):
        self.metadata, self.possible_agents = {"name": "game", "max_cycles": 3}, [f"a{i}" for i in range(size)]

    def observation_space(self, agent):
        return Box(-1, 1, (1,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = list(self.possible_agents), 0
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        seen = {agent: np.zeros(1, np.float32) for agent in self.agents}
        ends = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, self.steps == 3)
        result = seen, dict.fromkeys(self.agents, 1.0), *ends, {agent: {} for agent in self.agents}
        self.agents = [] if self.steps == 3 else self.agents
        return result

    def close(self):
        pass


class Builder:
    def build(self):
        return Game()

    @classmethod
    def make(cls, size=2):
        return Game(size)


def build(size):
    return Game(size)
