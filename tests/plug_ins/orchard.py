import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

MOVES = 0.2 * np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])


class Orchard(ParallelEnv):
    def __init__(self):
        self.possible_agents = ["picker_0", "picker_1", "picker_2"]
        self.max_cycles = 25
        self.entities = {
            "own": [0, 1],
            "blocks": [
                {"name": "teammate", "columns": [[2, 3], [4, 5]], "position": [0, 1], "teammates": True},
                {"name": "wasp", "columns": [[6, 7], [8, 9]], "position": [0, 1]},
                {
                    "name": "fruit",
                    "columns": [[10, 11, 12], [13, 14, 15], [16, 17, 18], [19, 20, 21]],
                    "position": [0, 1],
                    "absent": [0, 0, 0],
                },
            ],
        }

    def observation_space(self, agent):
        return Box(-2, 2, (22,))

    def action_space(self, agent):
        return Discrete(5)

    def reset(self, seed=None, options=None):
        places = np.random.default_rng(seed).uniform(-1, 1, (9, 2))
        self.pickers, self.wasps, self.fruits = np.split(places, [3, 5])
        self.ripe, self.steps, self.agents = np.ones((4, 1)), 0, self.possible_agents[:]
        return self.observe(), {agent: {} for agent in self.agents}

    def observe(self):
        observations = {}
        for i, agent in enumerate(self.possible_agents):
            own = self.pickers[i]
            fruits = np.hstack([self.fruits - own, self.ripe]) * self.ripe
            parts = own, np.delete(self.pickers, i, axis=0) - own, self.wasps - own, fruits
            observations[agent] = np.concatenate([part.ravel() for part in parts], dtype=np.float32)
        return observations

    def near(self, places):
        return np.linalg.norm(self.pickers[:, None] - places, axis=2) < 0.2

    def step(self, actions):
        moves = MOVES[[actions[agent] for agent in self.agents]]
        self.pickers = np.clip(self.pickers + moves, -1, 1)
        picked = self.near(self.fruits) & (self.ripe[:, 0] > 0)
        self.ripe[picked.any(axis=0)] = 0
        gains = picked.sum(axis=1) - self.near(self.wasps).sum(axis=1)
        self.steps += 1
        never, over = (dict.fromkeys(self.agents, end) for end in (False, self.steps == self.max_cycles))
        rewards, infos = dict(zip(self.agents, gains, strict=True)), {agent: {} for agent in self.agents}
        if self.steps == self.max_cycles:
            self.agents = []
        return self.observe(), rewards, never, over, infos
