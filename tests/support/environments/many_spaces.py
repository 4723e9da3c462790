"""A small PettingZoo environment for every kind of space: observation and action spaces are chosen by name."""

import itertools
import types
from copy import deepcopy

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

SIGHTS = {
    "numbers": spaces.Box(-1.0, 1.0, (2, 2), np.float64),
    "image": spaces.Box(0, 255, (3, 2, 3), np.uint8),
    "counts": spaces.Box(0, 7, (4,), np.uint8),
    "one choice": spaces.Discrete(3, start=-1),
    "several choices": spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [2, -3]]),
    "bits": spaces.MultiBinary((2, 2)),
    "named": spaces.Dict({"seen": spaces.Box(0, 255, (2, 2), np.uint8), "held": spaces.Discrete(3)}),
    "nested": spaces.Tuple(
        [
            spaces.Discrete(2),
            spaces.Dict({"b": spaces.MultiBinary(2), "a": spaces.Tuple([spaces.MultiDiscrete([2, 2])])}),
        ]
    ),
}
DEEDS = {
    "one choice": spaces.Discrete(4, start=2),
    "several choices": spaces.MultiDiscrete([3, 2], start=[0, 5]),
    "table of choices": spaces.MultiDiscrete([[2, 3], [2, 2]]),
    "choice in an array": spaces.MultiDiscrete([4]),
    "bits": spaces.MultiBinary((2, 1)),
    "numbers": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 0.1], np.float32)),
    "wide numbers": spaces.Box(-0.1, 0.1, (1, 2), np.float64),
}


class Studio(ParallelEnv):
    """`count` agents that observe samples of one space. Their actions, which must be legal, are kept in `done`.

    `does` names their action spaces, separated by bars where they differ. An episode is `max_cycles` steps. A step pays
    1. `masked` masks have one place per action. They allow all places except the digits of `forbidden`.
    """

    metadata = types.MappingProxyType({"name": "studio_v0"})

    def __init__(self, sees="numbers", does="one choice", count=2, masked=False, forbidden="", mask_size=0):
        self.possible_agents = [f"artist_{i}" for i in range(count)]
        self.max_cycles = 4
        self.masked, self.forbidden, self.mask_size = masked, {int(digit) for digit in forbidden}, mask_size
        self.sight = deepcopy(SIGHTS[sees])
        deeds = itertools.cycle(DEEDS[name] for name in does.split("|"))
        self.deeds = dict(zip(self.possible_agents, deeds, strict=False))
        self.sights = {agent: self._of(self.sight) for agent in self.possible_agents}

    def _of(self, sight):
        if not self.masked:
            return sight
        return spaces.Dict({"observation": sight, "action_mask": spaces.Box(0, 1, (self.mask_size,), np.int8)})

    def observation_space(self, agent):
        return self.sights[agent]

    def action_space(self, agent):
        return self.deeds[agent]

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.sight.seed(seed)
        self.steps, self.done = 0, []
        return self.observations(), {agent: {} for agent in self.agents}

    def observations(self):
        mask = np.array([place not in self.forbidden for place in range(self.mask_size)], dtype=np.int8)
        seen = {agent: self.sight.sample() for agent in self.agents}
        return {agent: {"observation": seen[agent], "action_mask": mask} for agent in seen} if self.masked else seen

    def step(self, actions):
        for agent, action in actions.items():
            assert self.deeds[agent].contains(action), f"{agent} does {action!r}"
        self.done.append(actions)
        self.steps += 1
        seen, acted = self.observations(), self.agents
        over = self.steps == self.max_cycles
        self.agents = [] if over else acted
        return (
            seen,
            dict.fromkeys(acted, 1.0),
            dict.fromkeys(acted, False),
            dict.fromkeys(acted, over),
            {agent: {} for agent in acted},
        )

    def close(self):
        pass
