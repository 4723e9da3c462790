"""PettingZoo environments with two agents and one fault. Nothing states that an episode has four steps."""

import itertools

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

_CALLS = itertools.count()


class Kept(ParallelEnv):
    """Agents 'a' and 'b' see a draw and the step. Every step pays each agent 1."""

    metadata = {"name": "kept"}  # noqa: RUF012 — as PettingZoo's own environments have it
    dtype, high, limit = np.float32, 4.0, 4

    def __init__(self):
        self.possible_agents = ["a", "b"]

    def observation_space(self, agent):
        return Box(0, self.high, (2,), self.dtype)

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.steps, self.draw = [*self.possible_agents], 0, float(np.random.default_rng(seed).random())
        return self.observations(), {agent: {} for agent in self.agents}

    def observations(self):
        return {agent: np.array([self.draw, self.steps], np.float32) for agent in self.agents}

    def rewards(self):
        return {"a": 1.0, "b": 1.0}

    def step(self, actions):
        self.steps += 1
        over = self.steps == self.limit
        answer = self.observations(), self.rewards(), dict.fromkeys("ab", False), dict.fromkeys("ab", over)
        if over:
            self.agents = []
        return *answer, {"a": {}, "b": {}}

    def close(self):
        pass


class Unseeded(Kept):
    def reset(self, seed=None, options=None):
        return super().reset(next(_CALLS))


class Leftover(Kept):
    """The second agent's reward counts the episodes of this object."""

    episodes = 0

    def reset(self, seed=None, options=None):
        self.episodes += 1
        return super().reset(seed)

    def rewards(self):
        return {"a": 1.0, "b": float(self.episodes)}


class Picture(Kept):
    """Promises bytes, and the draw is none."""

    dtype, high = np.uint8, 255


class TooHigh(Kept):
    high = 3.0


class Duel(Kept):
    def rewards(self):
        return {"a": 1.0, "b": -1.0}


class Vanishing(Kept):
    def step(self, actions):
        answer = super().step(actions)
        self.agents = ["a"]
        return answer


class Endless(Kept):
    limit = -1


def pole():
    return gymnasium.make("CartPole-v1")
