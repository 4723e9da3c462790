"""The sides of a task where some agents compete with others, and what each side got.

What one side wins another may lose, so a sum over all agents hides who got better. A side is named after its agents:
``adversary`` for adversary_0 and adversary_1.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from functions.contract import Team
from functions.environments.base import EnvSpec

_NUMBER = re.compile(r"[_-]?\d+$")


@dataclass(frozen=True)
class Side:
    """`number` is what `EnvSpec.sides` calls it; `agents` are positions in `EnvSpec.agents`, ascending."""

    number: int
    name: str
    agents: tuple[int, ...]


def sides_of(spec: EnvSpec) -> tuple[Side, ...]:
    """The sides in the order of their numbers; none where all agents are on one."""
    if not spec.sides:
        return ()
    members = [tuple(agent for agent, of in enumerate(spec.sides) if of == side) for side in range(max(spec.sides) + 1)]
    names = [_joined([_NUMBER.sub("", spec.agents[agent]) for agent in agents]) for agents in members]
    if len({*names}) < len(names) or "" in names:  # the numbers alone tell the agents apart
        names = [_joined([spec.agents[agent] for agent in agents]) for agents in members]
    pairs = zip(names, members, strict=True)
    return tuple(Side(number, name, agents) for number, (name, agents) in enumerate(pairs))


def measured(spec: EnvSpec, wanted: int | None, fixed: int | None = None) -> Side | None:
    """The side by whose return a run is judged: number `wanted`, or the largest (the first of equals) but the one that
    is `fixed`; None where all agents are on one side, whose sum counts. A number that no side has is refused by
    `incompatibility` before a run begins."""
    found = sides_of(spec)
    if not found:
        return None
    if wanted is not None and wanted < len(found):
        return found[wanted]
    return max((side for side in found if side.number != fixed), key=lambda side: len(side.agents))


def learning(spec: EnvSpec, team: Team) -> tuple[Side, ...]:
    """The sides some of whose agents learn; none where all agents are on one."""
    return tuple(side for side in sides_of(spec) if {*side.agents} & {*team.learners})


def returns_of(spec: EnvSpec, agent_returns: Sequence[float]) -> dict[str, float]:
    """The sum over each side's agents, by the side's name; empty where all agents are on one side, or nobody played."""
    if not agent_returns:
        return {}
    return {side.name: sum(agent_returns[agent] for agent in side.agents) for side in sides_of(spec)}


def incompatibility(spec: EnvSpec, wanted: int | None) -> str:
    """Why the side asked for cannot be measured; '' when it can."""
    if wanted is None:
        return ""
    found = sides_of(spec)
    if not found:
        return f"evaluation.side: {wanted} is asked for, and all agents of the task are on one side; leave it out"
    if wanted >= len(found):
        listed = ", ".join(f"{number} ({side.name})" for number, side in enumerate(found))
        return f"evaluation.side: the task has no side {wanted}; there are {listed}"
    return ""


def classes_by_side(spec: EnvSpec) -> tuple[int, ...]:
    """A number for every agent, equal for those of one class and one side: who may share a network."""
    kinds = list(zip(spec.class_of, spec.sides or (0,) * len(spec.agents), strict=True))
    return tuple(kinds.index(kind) for kind in kinds)


def _joined(names: list[str]) -> str:
    return "+".join(dict.fromkeys(names)) if all(names) else ""
