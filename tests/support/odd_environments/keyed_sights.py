"""An environment of one step with dictionaries with a mask as observations, in no order of their keys."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

SIGHT = spaces.Dict({"wall": spaces.Box(0, 9, (4,), np.float32), "card": spaces.Discrete(3)})


class KeyedSights(ParallelEnv):
    max_cycles = 1

    def __init__(self):
        self.metadata, self.possible_agents = {"name": "keyed_sights"}, ["second", "first"]

    def observation_space(self, agent):
        return spaces.Dict({"observation": SIGHT, "action_mask": spaces.Box(0, 1, (2,), np.int8)})

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        return self._sights(), {agent: {} for agent in self.agents}

    def step(self, actions):
        rewards = {"second": 10.0, "first": 20.0}
        ended, going = dict.fromkeys(rewards, True), dict.fromkeys(rewards, False)
        self.agents = []
        return self._sights(), rewards, going, ended, {agent: {} for agent in rewards}

    def _sights(self):
        walls = {"second": [1, 2, 3, 4], "first": [5, 6, 7, 8]}
        cards = {"second": 2, "first": 1}
        return {
            agent: {
                "observation": {"wall": np.float32(walls[agent]), "card": cards[agent]},
                "action_mask": np.ones(2, np.int8),
            }
            for agent in walls
        }


def make():
    return KeyedSights()
