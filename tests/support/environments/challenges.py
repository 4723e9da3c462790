"""A game of three players that take turns, `challenge(...)`: some leave early, and all get rewards in every turn."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv

from marless.functions.environments.base import EnvTask

OUT = 2


class Challenge(AECEnv):
    """In a turn a player takes 0 or 1, which each other player in play pays half of, or throws the next one `OUT`.

    A player does not take twice the same in a row. A player who is thrown out pays 1. The last player gets 2 and has
    won. After `limit` turns everybody is out of time. A player sees ``[[number, turns], [players, last]]``.
    """

    metadata = {"name": "challenge_v0"}  # noqa: RUF012

    def __init__(self, masks="observation", leaving="at once", limit=0, fault="", parallelizable=None, space=None):
        self.possible_agents = ["player_0", "player_1", "player_2"]
        self.masks, self.leaving, self.limit, self.fault = masks, leaving, limit, fault
        if parallelizable is not None:
            self.metadata = {"is_parallelizable": parallelizable}
        self.space = {"numbers": spaces.Box(0, 1, (1,)), "choices": spaces.MultiDiscrete([3, 2])}.get(space)
        self.closed = 0

    def observation_space(self, agent):
        box = spaces.Box(-np.inf, np.inf, (2, 2), np.float64)
        masked = spaces.Dict({"observation": box, "action_mask": spaces.Box(0, 1, (3,), np.int8)})
        return masked if self.masks == "observation" else box

    def action_space(self, agent):
        return self.space or spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[1:] if self.fault == "late agent" else self.possible_agents[:]
        self.rewards, self._cumulative_rewards = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.turns, self.first = 0, np.random.default_rng(seed).integers(100)
        self.last = dict.fromkeys(self.possible_agents, -1)
        self.agent_selection = self.agents[0]
        self._tell_masks()

    def observe(self, agent):
        place = self.possible_agents.index(agent)
        box = np.array([[place, self.turns], [len(self.agents), self.last[agent] + self.first]], dtype=np.float64)
        return {"observation": box, "action_mask": self._mask(agent)} if self.masks == "observation" else box

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            if self.fault != "stays":
                self._was_dead_step(action)
                self._go_on_after(agent)
            return
        assert self.masks == "none" or self._mask(agent)[action], f"{agent} may not do {action}"
        self.turns += 1
        self._pay(agent, action)
        self._turn_to_the_next(agent)
        self._tell_masks()

    def _pay(self, agent, action):
        others = [one for one in self.agents if one != agent and not self.terminations[one]]
        self._clear_rewards()
        self.last[agent] = action
        if action == OUT:
            victim = min(others, key=lambda one: (int(one[-1]) - int(agent[-1])) % 3)
            self.terminations[victim], self.rewards[victim] = True, -1.0
            if len(others) == 1:
                self.terminations[agent], self.rewards[agent] = True, 2.0
        else:
            self.rewards |= {agent: float(action), **dict.fromkeys(others, -action / 2)}
        self.truncations = dict.fromkeys(self.agents, self.turns == self.limit)
        self._accumulate_rewards()
        if self.fault == "joins":
            self.agents.append("stranger")
        if self.fault == "comes back" and self.turns == 3:
            self.agents.append("player_2")
            for known, value in ((self.rewards, 0.0), (self.terminations, False), (self.truncations, False)):
                known["player_2"] = value
            self._cumulative_rewards["player_2"] = 0.0

    def _turn_to_the_next(self, agent):
        order = self.possible_agents * 2
        later = [one for one in order[order.index(agent) + 1 :] if one in self.agents]
        if self.leaving == "at once":
            later = [one for one in later if not self.terminations[one]] or later
        self.agent_selection = later[0]
        if self.fault == "a ghost's turn" and self.terminations["player_2"]:
            self.agent_selection = "player_2"
        if self.leaving == "at once":
            self._deads_step_first()

    def _go_on_after(self, dead):
        if self.leaving == "in turn" and self.agents:
            order = self.possible_agents * 2
            self.agent_selection = next(one for one in order[order.index(dead) + 1 :] if one in self.agents)
        self._tell_masks()

    def _mask(self, agent):
        waits = agent != self.agent_selection
        return np.array([waits or action == OUT or self.last[agent] != action for action in range(3)], dtype=np.int8)

    def _tell_masks(self):
        if self.masks == "info":
            self.infos = {agent: {"action_mask": self._mask(agent)} for agent in self.agents}

    def close(self):
        self.closed += 1


def challenge(horizon=30, **options):
    return EnvTask(name="pettingzoo:challenges:Challenge", options={"horizon": horizon, **options})
