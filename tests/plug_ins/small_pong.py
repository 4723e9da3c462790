"""Cooperative pong with every eighth pixel of every eighth line, in grey."""

from gymnasium.spaces import Box
from pettingzoo.butterfly import cooperative_pong_v6
from pettingzoo.utils import BaseParallelWrapper


class Small(BaseParallelWrapper):
    def observation_space(self, agent):
        return Box(0, 255, small(self.env.observation_space(agent).low).shape, "uint8")

    def reset(self, seed=None, options=None):
        seen, infos = self.env.reset(seed=seed, options=options)
        return shrunk(seen), infos

    def step(self, actions):
        seen, *rest = self.env.step(actions)
        return shrunk(seen), *rest

    def state(self):
        return small(self.env.state())


def small(picture):
    return picture[::8, ::8].mean(axis=2).astype("uint8")


def shrunk(seen):
    return {agent: small(picture) for agent, picture in seen.items()}


def make(**options):
    return Small(cooperative_pong_v6.parallel_env(**options))
