"""The agents of a PettingZoo environment: their spaces, classes and sides."""

import re
from dataclasses import dataclass
from typing import Any

from functions.environments.base import AgentClass, Unsupported
from functions.environments.pettingzoo.action_spaces import ActionDecoder, action_decoder
from functions.environments.pettingzoo.guard import Guard
from functions.environments.pettingzoo.spaces import ObservationEncoder, observation_encoder


@dataclass(frozen=True)
class Agent:
    """An agent and its spaces."""

    # Its name in PettingZoo, which need not be a string.
    key: Any
    # Without the action mask.
    observation_space: Any
    action_space: Any
    masked: bool
    encoder: ObservationEncoder
    decoder: ActionDecoder

    @property
    def name(self) -> str:
        return str(self.key)

    def has_equal_spaces(self, other: "Agent") -> bool:
        """Whether both agents have equal spaces."""
        own = (self.observation_space, self.action_space, self.masked)
        return own == (other.observation_space, other.action_space, other.masked)


def agents_of(task: str, guard: Guard, joint: bool) -> list[Agent]:
    """All agents, in the order of `possible_agents`; raises what `observation_encoder` and `action_decoder` raise.

    `joint` numbers the combinations of several choices as one choice.
    """
    from gymnasium import spaces

    agents = []
    for key in guard.environment.possible_agents:
        seen, action_space = guard.call("observation_space", key), guard.call("action_space", key)
        masked = isinstance(seen, spaces.Dict) and {*seen.spaces} == {"observation", "action_mask"}
        if masked:
            seen = seen["observation"]
        who = f"{task}: agent '{key}'"
        encoder, decoder = observation_encoder(who, seen), action_decoder(who, action_space, joint)
        agent = Agent(key, seen, action_space, masked, encoder, decoder)
        if masked and agent.decoder.low:
            raise Unsupported(f"{who} has an action_mask, but continuous actions")
        agents.append(agent)
    return agents


def classes_of(agents: list[Agent]) -> tuple[AgentClass, ...]:
    """Agents with equal spaces, named after the first of them without its number."""
    groups: list[list[int]] = []
    for i, agent in enumerate(agents):
        for group in groups:
            if agent.has_equal_spaces(agents[group[0]]):
                group.append(i)
                break
        else:
            groups.append([i])
    names: list[str] = []
    for group in groups:
        stem = re.sub(r"[_-]?\d+$", "", agents[group[0]].name) or "agent"
        names.append(agents[group[0]].name if stem in names else stem)
    return tuple(
        first.decoder.as_class(name, tuple(group), first.encoder.size, first.encoder.layout)
        for name, group, first in zip(names, groups, (agents[group[0]] for group in groups), strict=True)
    )


def sides_of(task: str, agents: list[Agent], option: object) -> tuple[int, ...]:
    """The side of every agent; `option` lists the prefixes of the agents' names of each side: ``"adversary,agent"``.

    The longest matching prefix counts. Raises `ValueError` for agents without a side, sides without agents
    and a single side. An empty option means no sides.
    """
    if option == "":
        return ()
    prefixes = [prefix.strip() for prefix in option.split(",")] if isinstance(option, str) else []
    if len(prefixes) < 2 or len({*prefixes}) < len(prefixes) or "" in prefixes:
        raise ValueError(
            f"{task}: task.options.sides is {option!r}; it lists how the agents' names start on each of two or more "
            'sides, as in "adversary,agent"'
        )
    sides = []
    for agent in agents:
        fitting = [prefix for prefix in prefixes if agent.name.startswith(prefix)]
        if not fitting:
            raise ValueError(f"{task}: agent '{agent.name}' is on none of the sides {prefixes} of task.options.sides")
        sides.append(prefixes.index(max(fitting, key=len)))
    if empty := [prefix for side, prefix in enumerate(prefixes) if side not in sides]:
        names = [agent.name for agent in agents]
        raise ValueError(f"{task}: no agent is on side '{empty[0]}' of task.options.sides; there are {names}")
    return tuple(sides)
