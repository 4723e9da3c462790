"""The agents of a PettingZoo environment: their spaces, classes and sides."""

import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from marless.functions.environments.base import AgentClass, Unsupported
from marless.functions.environments.entities.description import Entities
from marless.functions.environments.pettingzoo.entities import entities_of
from marless.functions.environments.pettingzoo.guard import Guard
from marless.functions.environments.pettingzoo.masks import NO_RESET, FirstReset, Place, unmasked_space
from marless.functions.environments.pettingzoo.spaces import action_space_of, observation_space_of
from marless.functions.environments.spaces.actions import ActionCodec
from marless.functions.environments.spaces.agent import AgentCodec
from marless.functions.environments.spaces.space_types import AgentSpaces


@dataclass(frozen=True)
class Agent:
    """An agent and its spaces."""

    key: Any
    """Its name in PettingZoo, which need not be a string."""
    observation_space: Any
    """The Gymnasium space of its observations, without the action mask."""
    action_space: Any
    mask: Place
    spaces: AgentSpaces
    codec: AgentCodec
    entities: Entities | None = None

    @property
    def name(self) -> str:
        return str(self.key)

    @property
    def masked(self) -> bool:
        return self.mask is not Place.NOWHERE

    def has_equal_spaces(self, other: "Agent") -> bool:
        """Return True if both agents have equal spaces, and equal entities in their observations."""
        own_spaces = (self.observation_space, self.action_space, self.masked, self.entities)
        return own_spaces == (other.observation_space, other.action_space, other.masked, other.entities)


def agents_of(task: str, guard: Guard, joint: bool, first_reset: FirstReset = NO_RESET) -> list[Agent]:
    """All agents, in the order of `possible_agents`. `shown` has the observations and infos of the first reset.

    Raises the errors of `observation_space_of`, `action_space_of` and `unmasked_space`, and `Unsupported` for two names
    with equal texts. `joint` numbers the combinations of several choices as one choice.
    """
    agents: list[Agent] = []
    for key in guard.environment.possible_agents:
        label = f"{task}: agent '{key}'"
        action_space = guard.space("action_space", key)
        space, mask = unmasked_space(label, guard.space("observation_space", key), key, first_reset)
        masked = mask is not Place.NOWHERE
        action_description = action_space_of(label, action_space, joint)
        joint_choice = joint and len(ActionCodec(to_builtins(action_description)).branches) > 1
        agent_spaces = AgentSpaces(
            observation_space_of(label, space), action_description, masked=masked, joint=joint_choice
        )
        codec = AgentCodec(str(key), agent_spaces.plain())
        entities = entities_of(label, guard.environment, key, codec.observation.size)
        agent = Agent(key, space, action_space, mask, agent_spaces, codec, entities)
        if masked and agent.codec.action.continuous:
            raise Unsupported(f"{label} has an action_mask, but continuous actions")
        if duplicates := [namesake.key for namesake in agents if namesake.name == agent.name]:
            raise Unsupported(
                f"{task}: agents {duplicates[0]!r} and {key!r} have the same text; names must differ as text"
            )
        agents.append(agent)
    return agents


def keys_of(agents: list[Agent]) -> tuple[str | int, ...]:
    """The agents' names in PettingZoo where some are integers, else ()."""
    # True is an integer too, but with another text.
    has_integer_name = [
        isinstance(agent.key, numbers.Integral) and str(int(agent.key)) == agent.name for agent in agents
    ]
    if not any(has_integer_name):
        return ()
    return tuple(
        int(agent.key) if is_integer else agent.name for agent, is_integer in zip(agents, has_integer_name, strict=True)
    )


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
    return tuple(_class_of(name, tuple(group), agents[group[0]]) for name, group in zip(names, groups, strict=True))


def _class_of(name: str, members: tuple[int, ...], first: Agent) -> AgentClass:
    action = first.codec.action
    single = not action.continuous and not action.branches and not action.joined
    return AgentClass(
        name=name,
        agents=members,
        observation_size=first.codec.observation.size,
        actions=action.actions,
        first_action=int(action.start.reshape(-1)[0]) if single else 0,
        branches=action.branches,
        low=action.low,
        high=action.high,
        observation_shape=first.codec.observation.layout,
        spaces=first.spaces,
        entities=first.entities,
    )


def sides_of(task: str, agents: Sequence[str], option: object) -> tuple[int, ...]:
    """The side of every agent. `option` lists the prefixes of the agents' names of each side: ``"adversary,agent"``.

    The longest matching prefix counts. Raises `ValueError` if an agent fits zero sides, a side is empty, or there is a
    single side. An empty option means no sides.
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
        if not (matches := [prefix for prefix in prefixes if agent.startswith(prefix)]):
            raise ValueError(f"{task}: agent '{agent}' is on none of the sides {prefixes} of task.options.sides")
        sides.append(prefixes.index(max(matches, key=len)))
    if empty := [prefix for side, prefix in enumerate(prefixes) if side not in sides]:
        raise ValueError(f"{task}: no agent is on side '{empty[0]}' of task.options.sides; there are {[*agents]}")
    return tuple(sides)
