"""A game of PettingZoo with spaces, masks and order of turns that are drawn at random by a number."""

import types

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from random_spaces import Task, bits, choices, discrete, observed, sample

NAMES = (["a", "b"], [0, 1], ["0", 1], [(0, 1), (2, "x")])
TURNS = 9
DONE = []


class Game(AECEnv):
    """Two or three players, and one may be out after four turns. Any may have the next turn, even twice in a row.

    DONE holds the actions in all games, by player. Masks of waiting players mislead.
    """

    metadata = types.MappingProxyType({"name": "random_turns_v0", "max_cycles": TURNS})
    render_mode = None

    def __init__(self, number=0):
        rng = np.random.default_rng([77, number])
        self.possible_agents = list(NAMES[rng.integers(len(NAMES))]) + ["c"] * bool(rng.random() < 0.5)
        acted = (discrete, choices, bits)
        equal, sees, does = rng.random() < 0.5, observed(rng), acted[rng.integers(3)](rng)
        self.seen = {agent: sees if equal else observed(rng) for agent in self.possible_agents}
        self.does = {agent: does if equal else acted[rng.integers(3)](rng) for agent in self.possible_agents}
        self.masks, self.deadly = ("observation", "info", "none")[rng.integers(3)], rng.random() < 0.5

    mask_sizes = Task.mask_sizes

    def observation_space(self, agent):
        if self.masks != "observation":
            return self.seen[agent]
        mask = spaces.Box(0, 1, (sum(self.mask_sizes(agent)),), np.int8)
        return spaces.Dict({"observation": self.seen[agent], "action_mask": mask})

    def action_space(self, agent):
        return self.does[agent]

    def reset(self, seed=None, options=None):
        self.rng, self.agents, self.turns = np.random.default_rng(seed), self.possible_agents[:], 0
        self.rewards, self._cumulative_rewards = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self._next(self.agents)

    def observe(self, agent):
        seen = self.now[agent]
        return {"observation": seen, "action_mask": self.legal[agent]} if self.masks == "observation" else seen

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        assert self.does[agent].contains(action), f"{agent!r} does {action!r}, not in {self.does[agent]}"
        DONE.append((agent, action))
        self.turns += 1
        self.truncations = dict.fromkeys(self.agents, self.turns == TURNS)
        if self.deadly and self.turns == 4 and len(self.agents) > 2:
            self.terminations[next(one for one in self.agents if one != agent)] = True
        self._next([one for one in self.agents if not self.terminations[one]])
        self._deads_step_first()

    def _next(self, players):
        self.agent_selection = players[self.rng.integers(len(players))]
        self.now = {agent: sample(space, self.rng) for agent, space in self.seen.items()}
        self.legal = {agent: self._mask(agent) for agent in self.possible_agents}
        told = self.masks == "info"
        self.infos = {agent: {"action_mask": self.legal[agent]} if told else {} for agent in self.agents}

    def _mask(self, agent):
        parts = [self.rng.integers(2, size=size) for size in self.mask_sizes(agent)]
        for part in parts:
            part[self.rng.integers(len(part))] = 1
        return np.concatenate(parts).astype(np.int8)
