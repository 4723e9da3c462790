"""The agents of a group, the agents of a side, and the groups of a side, which learn together."""

from marless.functions.environments.base import EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Team


def members(team: Team, group: int) -> list[int]:
    """The agents of a group, ascending."""
    return [agent for agent, group_of_agent in enumerate(team.groups) if group_of_agent == group]


def side_of(spec: EnvSpec, team: Team, group: int) -> list[int]:
    """The agents on the side of a group, ascending; raises `BadRequest` if its members are on several."""
    sides, agents = spec.sides or (0,) * len(spec.agents), members(team, group)
    on = {sides[agent] for agent in agents}
    if len(on) > 1:
        names = ", ".join(spec.agents[agent] for agent in agents)
        raise BadRequest(f"{names} share networks and are not on one side, so that they have no joint value")
    return [agent for agent, side in enumerate(sides) if side in on]


def groups_of(team: Team, agents: list[int]) -> list[int]:
    """The groups that the agents are in, ascending; the first one stores the state that a side has once."""
    return sorted({team.groups[agent] for agent in agents})


def leads_side(spec: EnvSpec, team: Team, group: int) -> bool:
    """Whether the group is its side's first, which stores the state that a side has once."""
    return group == groups_of(team, side_of(spec, team, group))[0]
