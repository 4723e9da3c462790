"""The agents of a PettingZoo environment: what each sees and does, which of them are of one class, and their sides."""

import re
from dataclasses import dataclass
from typing import Any

from functions.environments.base import AgentClass, Unsupported
from functions.environments.pettingzoo.action_spaces import Doing, doing
from functions.environments.pettingzoo.guard import Guard
from functions.environments.pettingzoo.spaces import Sight, sight


@dataclass(frozen=True)
class Agent:
    """An agent and its spaces; `key` is what PettingZoo calls it, `seen` what it observes without the mask."""

    key: Any
    seen: Any
    acted: Any
    masked: bool
    sight: Sight
    doing: Doing

    @property
    def name(self) -> str:
        return str(self.key)

    def like(self, other: "Agent") -> bool:
        """Whether both have equal spaces."""
        return (self.seen, self.acted, self.masked) == (other.seen, other.acted, other.masked)


def agents_of(task: str, guard: Guard, joint: bool) -> list[Agent]:
    """All agents, in the order of `possible_agents`; raises what `sight` and `doing` raise.

    `joint` numbers the combinations of several choices as one choice.
    """
    from gymnasium import spaces

    agents = []
    for key in guard.environment.possible_agents:
        seen, acted = guard.call("observation_space", key), guard.call("action_space", key)
        masked = isinstance(seen, spaces.Dict) and {*seen.spaces} == {"observation", "action_mask"}
        if masked:
            seen = seen["observation"]
        who = f"{task}: agent '{key}'"
        agent = Agent(key, seen, acted, masked, sight(who, seen), doing(who, acted, joint))
        if masked and agent.doing.low:
            raise Unsupported(f"{who} has an action_mask, but acts in numbers")
        agents.append(agent)
    return agents


def classes_of(agents: list[Agent]) -> tuple[AgentClass, ...]:
    """Agents with equal spaces, named after the first of them without its number."""
    groups: list[list[int]] = []
    for i, agent in enumerate(agents):
        for group in groups:
            if agent.like(agents[group[0]]):
                group.append(i)
                break
        else:
            groups.append([i])
    names: list[str] = []
    for group in groups:
        stem = re.sub(r"[_-]?\d+$", "", agents[group[0]].name) or "agent"
        names.append(agents[group[0]].name if stem in names else stem)
    return tuple(
        first.doing.as_class(name, tuple(group), first.sight.size)
        for name, group, first in zip(names, groups, (agents[group[0]] for group in groups), strict=True)
    )


def sides_of(task: str, agents: list[Agent], option: object) -> tuple[int, ...]:
    """The side of every agent; `option` lists how the names of each side's agents start, as in ``"adversary,agent"``.

    Of several fitting starts the longest counts. Raises `ValueError` for agents without a side, sides without agents
    and a single side. The empty option is no sides.
    """
    if option == "":
        return ()
    starts = [start.strip() for start in option.split(",")] if isinstance(option, str) else []
    if len(starts) < 2 or len({*starts}) < len(starts) or "" in starts:
        raise ValueError(
            f"{task}: task.options.sides is {option!r}; it lists how the agents' names start on each of two or more "
            'sides, as in "adversary,agent"'
        )
    sides = []
    for agent in agents:
        fitting = [start for start in starts if agent.name.startswith(start)]
        if not fitting:
            raise ValueError(f"{task}: agent '{agent.name}' is on none of the sides {starts} of task.options.sides")
        sides.append(starts.index(max(fitting, key=len)))
    if empty := [start for side, start in enumerate(starts) if side not in sides]:
        names = [agent.name for agent in agents]
        raise ValueError(f"{task}: no agent is on side '{empty[0]}' of task.options.sides; there are {names}")
    return tuple(sides)
