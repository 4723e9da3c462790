"""The sides of a task with competing agents, and the return of each side.

One side may win the reward that another loses, so a sum over all agents hides which side improved. A side is named
after its agents: ``adversary`` for adversary_0 and adversary_1.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from marless.functions.environments.base import EnvSpec
from marless.functions.messages.team import Team

_NUMBER = re.compile(r"[_-]?\d+$")


@dataclass(frozen=True)
class Side:
    """Agents that do not compete with each other."""

    # As in `EnvSpec.sides`.
    number: int
    name: str
    # Positions in `EnvSpec.agents`, ascending.
    agents: tuple[int, ...]


def sides_of(spec: EnvSpec) -> tuple[Side, ...]:
    """Return the sides in the order of their numbers. Empty if all agents are on one side."""
    if not spec.sides:
        return ()
    members = [tuple(agent for agent, of in enumerate(spec.sides) if of == side) for side in range(max(spec.sides) + 1)]
    names = [_join([_NUMBER.sub("", spec.agents[agent]) for agent in agents]) for agents in members]
    if len({*names}) < len(names) or "" in names:  # only numbers distinguish the agents
        names = [_join([spec.agents[agent] for agent in agents]) for agents in members]
    pairs = zip(names, members, strict=True)
    return tuple(Side(number, name, agents) for number, (name, agents) in enumerate(pairs))


def ranked_side(spec: EnvSpec, side_number: int | None, fixed_number: int | None = None) -> Side | None:
    """Return the side that ranks policies by its return, or None if all agents are on one side.

    It is number `side_number` (checked by `incompatibility`), or the first largest side except `fixed_number`."""
    if not (sides := sides_of(spec)):
        return None
    if side_number is not None and side_number < len(sides):
        return sides[side_number]
    return max((side for side in sides if side.number != fixed_number), key=lambda side: len(side.agents))


def learning(spec: EnvSpec, team: Team) -> tuple[Side, ...]:
    """Return the sides with agents that learn. Empty if all agents are on one side."""
    return tuple(side for side in sides_of(spec) if {*side.agents} & {*team.learners})


def returns_of(spec: EnvSpec, agent_returns: Sequence[float]) -> dict[str, float]:
    """Return each side's sum over its agents, by name. Empty without returns, or if all agents are on one side."""
    if not agent_returns:
        return {}
    return {side.name: sum(agent_returns[agent] for agent in side.agents) for side in sides_of(spec)}


def incompatibility(spec: EnvSpec, side_number: int | None) -> str:
    """Return the reason why side `side_number` cannot rank policies, or ''."""
    if side_number is None:
        return ""
    if not (sides := sides_of(spec)):
        return f"evaluation.side: {side_number} is asked for, and all agents of the task are on one side; leave it out"
    if side_number >= len(sides):
        side_list = ", ".join(f"{number} ({side.name})" for number, side in enumerate(sides))
        return f"evaluation.side: the task has no side {side_number}; there are {side_list}"
    return ""


def classes_by_side(spec: EnvSpec) -> tuple[int, ...]:
    """A number for every agent, equal for agents of one class and side, which may share a network."""
    kinds = list(zip(spec.class_of, spec.sides or (0,) * len(spec.agents), strict=True))
    return tuple(kinds.index(kind) for kind in kinds)


def _join(names: list[str]) -> str:
    return "+".join(dict.fromkeys(names)) if all(names) else ""
