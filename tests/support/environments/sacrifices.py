"""A game with an agent that may die early for the team's reward: `pettingzoo:sacrifices:game`."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv


class Game(ParallelEnv):
    """Two steps. In the first the martyr may take 1 for itself, or die for nothing. In the second the heir gets 5 if it
    died. The heir's actions have no effect."""

    render_mode = None

    def __init__(self):
        self.metadata = {"name": "sacrifice", "max_cycles": 2}
        self.possible_agents = ["martyr", "heir"]

    def observation_space(self, agent):
        return Box(0.0, 1.0, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.second = list(self.possible_agents), False
        return self.observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        if not self.second:
            died = actions["martyr"] == 1
            rewards, ends = {"martyr": float(not died), "heir": 0.0}, {"martyr": bool(died), "heir": False}
        else:
            rewards = {agent: 5.0 * ("martyr" not in self.agents) * (agent == "heir") for agent in self.agents}
            ends = dict.fromkeys(self.agents, True)
        self.second = True
        seen, limits = self.observations(), dict.fromkeys(self.agents, False)
        infos = {agent: {} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not ends[agent]]
        return seen, rewards, ends, limits, infos

    def observations(self):
        seen = np.eye(2, dtype=np.float32)[int(self.second)]
        return {agent: seen.copy() for agent in self.agents}


def game(**options):
    return Game()
