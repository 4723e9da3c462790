"""A PettingZoo environment that asks a resource in every step: `quiz(resources)`."""

import types

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Quiz(ParallelEnv):
    """Two agents choose one of three in each of four steps. Each gets as reward the digit that the resource `name`
    answers to its choice, its number and the step. Both are asked side by side, and see the step."""

    metadata = types.MappingProxyType({"name": "quiz_v0"})

    def __init__(self, resources, name="judge", max_cycles=4):
        self.possible_agents = ["first", "second"]
        self.resources, self.name, self.max_cycles = resources, name, max_cycles

    def observation_space(self, agent):
        return spaces.Box(0, self.max_cycles, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = self.possible_agents[:], 0
        return self.observations(), {agent: {} for agent in self.agents}

    def observations(self):
        return {agent: np.array([self.steps], np.float32) for agent in self.agents}

    def step(self, actions):
        questions = [b"%d %d %d" % (number, self.steps, actions[agent]) for number, agent in enumerate(self.agents)]
        answers = self.resources.call(self.name, questions)
        rewards = {agent: float(answer) for agent, answer in zip(self.agents, answers, strict=True)}
        self.steps += 1
        over = dict.fromkeys(self.agents, self.steps == self.max_cycles)
        observations, infos = self.observations(), {agent: {} for agent in self.agents}
        ends = dict.fromkeys(self.agents, False)
        if self.steps == self.max_cycles:
            self.agents = []
        return observations, rewards, ends, over, infos

    def close(self):
        pass


def quiz(resources, **options) -> Quiz:
    return Quiz(resources, **options)
