"""A task that plays only with the right key. Its agent has a name with control characters for a terminal."""

from typing import ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

NAME = "one\x1b[2J\nmarless: forged \u202e"


class Keyed(ParallelEnv):
    metadata: ClassVar = {"name": "keyed_v0", "max_cycles": 4}
    render_mode = None

    def __init__(self, api_key, fails, prints):
        if api_key != "opensesame-4711":
            raise ValueError(f"401 for the key {api_key}")
        self.fails, self.prints, self.possible_agents = fails, prints, [NAME, "two"]

    def observation_space(self, agent):
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = self.possible_agents[:], 0
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        if self.prints:
            print("the key opensesame-4711 \x1b[2J")
        if self.fails:
            raise RuntimeError(f"the key opensesame-4711 {NAME} was refused")
        rewards, over = {agent: float(actions[agent]) for agent in self.agents}, self.steps == 4
        ends = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, over)
        seen, infos = self._seen(), {agent: {} for agent in self.agents}
        self.agents = [] if over else self.agents
        return seen, rewards, *ends, infos

    def _seen(self):
        return {agent: np.zeros(2, np.float32) for agent in self.agents}


def make(api_key="", fails=False, prints=False):
    return Keyed(api_key, fails, prints)
