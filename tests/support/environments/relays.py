"""PettingZoo environments with every kind of interface and episode end: `relay(KIND)`. With `fault` they fail."""

import types
from typing import ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from marless.functions.environments.base import EnvTask


class Relay(ParallelEnv):
    """Agents 0, 1, ... of `count` terminate in steps 2, 3, ... (`dying`), the rest is truncated in step 5.

    An agent sees ``[[number, step], [draw, last action]]``. Actions start at 3. A step pays the agent's number + 1.
    """

    metadata = types.MappingProxyType({"name": "relay_v0"})

    def __init__(self, count=3, dying=True, masked=False, fault="", max_cycles=5):
        self.possible_agents = [f"runner_{i}" for i in range(count)]
        self.dying, self.masked, self.fault = dying, masked, fault
        if max_cycles:
            self.max_cycles = max_cycles
        box = spaces.Box(-np.inf, np.inf, (2, 2), np.float64)
        masked_box = spaces.Dict({"observation": box, "action_mask": spaces.Box(0, 1, (4,), np.int8)})
        self.box = dict.fromkeys(self.possible_agents, masked_box if masked else box)
        self.actions = {agent: spaces.Discrete(4, start=3) for agent in self.possible_agents}
        self.closed = 0

    def observation_space(self, agent):
        return self.box[agent]

    def action_space(self, agent):
        return self.actions[agent]

    def reset(self, seed=None, options=None):
        self.draws = np.random.default_rng(seed)
        self.agents = self.possible_agents[1:] if self.fault == "late agent" else self.possible_agents[:]
        self.steps, self.last = 0, dict.fromkeys(self.agents, 0)
        if self.fault == "reset":
            raise KeyError("no\nseed")
        return self.observations(), {agent: {} for agent in self.agents}

    def observations(self):
        return {agent: self.observe(agent) for agent in self.agents}

    def observe(self, agent):
        number = self.possible_agents.index(agent)
        box = np.array([[number, self.steps], [self.draws.random(), self.last[agent]]])
        mask = np.array([number != i for i in range(4)], dtype=np.int8)
        return {"observation": box, "action_mask": mask} if self.masked else box

    def step(self, actions):
        assert {*actions} == {*self.agents}, f"actions for {sorted(actions)}"
        assert all(self.actions[agent].contains(action) for agent, action in actions.items()), actions
        self.steps += 1
        self.last = {agent: int(action) for agent, action in actions.items()}
        number = {agent: self.possible_agents.index(agent) for agent in self.agents}
        terminated = {agent: self.dying and self.steps == 2 + i for agent, i in number.items()}
        truncated = dict.fromkeys(self.agents, self.steps == 5)
        rewards = {agent: i + 1.0 for agent, i in number.items()}
        answer = (self.observations(), rewards, terminated, truncated, {agent: {} for agent in self.agents})
        if self.fault and self.steps == 2:
            answer = FAULTS[self.fault](self, *answer)
        self.agents = [a for a in self.agents if not (answer[2].get(a, True) or answer[3].get(a, True))]
        return answer

    def close(self):
        self.closed += 1


class Returning(Relay):
    """The first agent, gone after step 2, is back in `agents` after step 3, or with `stays` never leaves it."""

    def __init__(self, stays=False):
        super().__init__()
        self.stays = stays

    def step(self, actions):
        self.agents = [agent for agent in self.agents if agent in actions]
        answer = super().step(actions)
        if 2 <= self.steps < 5 if self.stays else self.steps == 3:
            self.agents.insert(0, "runner_0")
        return answer


class Closing(Relay):
    made: ClassVar = []

    def __init__(self, **options):
        super().__init__(**options)
        self.made.append(self)


class Speaking(Relay):
    def state(self):
        return np.array([[self.steps, len(self.agents)]])


def _changed(part, agent, value):
    def change(environment, *answer):
        answer[part][agent] = value
        return answer

    return change


def _without(part, agent):
    def change(environment, *answer):
        del answer[part][agent]
        return answer

    return change


def _raise(environment, *answer):
    raise RuntimeError("wheel\nlost")


def _join(environment, *answer):
    environment.agents.append("stranger")
    return *(part | {"stranger": 0.0} for part in answer[:2]), *(part | {"stranger": False} for part in answer[2:4]), {}


def _drop(environment, *answer):
    environment.agents.remove("runner_2")
    return answer


FAULTS = {
    "reset": lambda environment, *answer: answer,
    "late agent": lambda environment, *answer: answer,
    "raises": _raise,
    "four parts": lambda environment, *answer: answer[:4],
    "nan": _changed(0, "runner_1", np.full((2, 2), np.nan)),
    "too large": _changed(0, "runner_1", np.full((2, 2), 1e300)),
    "shape": _changed(0, "runner_1", np.zeros(4)),
    "words": _changed(0, "runner_1", "far away"),
    "infinite reward": _changed(1, "runner_1", np.inf),
    "no observation": _without(0, "runner_1"),
    "no reward": _without(1, "runner_1"),
    "no termination": _without(2, "runner_1"),
    "truncated alone": _changed(3, "runner_1", True),
    "joins": _join,
    "drops": _drop,
    "no mask": _changed(0, "runner_1", np.zeros((2, 2))),
    "all masked": _changed(0, "runner_1", {"observation": np.zeros((2, 2)), "action_mask": np.zeros(4, np.int8)}),
}


class Stateful(Relay):
    """Its attribute `state` is something else, like in some games of PettingZoo."""

    state: types.MappingProxyType = types.MappingProxyType({"runner_0": 3})


class LengthInside(Relay):
    """Its length is an attribute of the inner game, like in some games of PettingZoo."""

    def __init__(self, **options):
        super().__init__(max_cycles=0)
        self.env = Relay(max_cycles=17)


class Mute(Relay):
    """Accepts its length as an option and does not expose it."""

    def __init__(self, max_cycles):
        super().__init__(max_cycles=0)


class Boundless(Relay):
    def __init__(self):
        super().__init__(max_cycles=0)


class Pictured(Relay):
    state_space = spaces.Box(0, 255, (1, 2), np.uint8)

    def state(self):
        return np.array([[51, 255]], dtype=np.uint8)


class Tabled(Relay):
    def state(self):
        return {"step": self.steps, "agents": list(self.agents)}


class Tired(Relay):
    """Observations are multiplied by the number of resets of this instance."""

    ran = 0

    def reset(self, seed=None, options=None):
        self.ran += 1
        return super().reset(seed)

    def observe(self, agent):
        return super().observe(agent) * self.ran


class Anonymous(Relay):
    def __init__(self):
        super().__init__()
        del self.possible_agents


def Formless() -> "ParallelEnv":  # noqa: N802
    return {}


def relay(kind="Relay", agents=None, **options):
    return EnvTask(name=f"pettingzoo:{__name__}:{kind}", agents=agents, options=options)
