"""Environments that fail: `pettingzoo:faulty_environments:<class>`. Two agents, episodes of five steps."""

import os
import random
import time

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

# The probability that a step of the intermittent environments fails. It has no seed, like real faults.
_RARELY = 0.005


class Sound(ParallelEnv):
    """Never fails: the reward is 1 for action 1."""

    render_mode = None

    def __init__(self):
        self.metadata = {"name": "sound", "max_cycles": 5}
        self.possible_agents = ["a", "b"]

    def observation_space(self, agent):
        return Box(-1.0, 1.0, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = list(self.possible_agents), 0
        return self.observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.fault()
        self.steps += 1
        over = self.steps == 5
        rewards = {agent: self.reward(action) for agent, action in actions.items()}
        ends = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, over)
        infos = {agent: {} for agent in self.agents}
        seen = self.observations()
        if over:
            self.agents = []
        return seen, rewards, *ends, infos

    def observations(self):
        return {agent: np.zeros(2, np.float32) for agent in self.agents}

    def fault(self):
        """The fault."""

    def reward(self, action):
        return float(action)


class Hangs(Sound):
    def fault(self):
        time.sleep(3600)


class Raises(Sound):
    def fault(self):
        raise RuntimeError("the simulator lost its map")


class Dies(Sound):
    def fault(self):
        if random.SystemRandom().random() < _RARELY:
            os._exit(3)


class Stalls(Sound):
    def fault(self):
        if random.SystemRandom().random() < _RARELY:
            time.sleep(3600)
