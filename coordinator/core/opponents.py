"""The side that does not learn: how it acts, where its policies lie, and what a run cannot have beside it."""

from typing import Literal

from coordinator.config.schema import RANDOM, RunConfig
from coordinator.core.sides import Side, measured, sides_of
from functions import keys
from functions.contract import Message, Opponents, Ref, Team
from functions.environments.base import EnvSpec

# Of a run, from its beginning to its end. Functions may read what is called so; see template.yaml.
KEY = keys.object_key("rounds/opponents", "policies")


class Fixed(Message, frozen=True, kw_only=True):
    """The policies of opponents, each agent's under a group of its own; `greedy` where they were not made to be drawn
    from."""

    policies: Ref
    greedy: bool = False


def opposed(config: RunConfig, spec: EnvSpec, fixed: Fixed | None, team: Team) -> Team:
    """`team` with the agents of the side that does not learn, if there is one, each in a group of its own."""
    if config.opponents.side is None:
        return team
    agents = sides_of(spec)[config.opponents.side].agents
    acting: Literal["drawn", "greedy", "random"] = "random"
    if fixed is not None:
        acting = "greedy" if fixed.greedy else "drawn"
    groups = tuple(agent if agent in agents else group for agent, group in enumerate(team.groups))
    return Team(groups=groups, identity=team.identity, opponents=Opponents(agents=agents, acting=acting))


def judged(config: RunConfig, spec: EnvSpec) -> Side | None:
    """The side by whose return the run is judged: as `measured` has it, among those that learn."""
    return measured(spec, config.evaluation.side, config.opponents.side)


def parts(team: Team, fixed: Fixed | None) -> tuple[str, ...]:
    """What of a run's state the opponents' object holds."""
    return tuple(f"policy/{keys.group_name(agent)}" for agent in team.fixed) if fixed else ()


def incompatibility(config: RunConfig, spec: EnvSpec, fixed: Fixed | None) -> str:
    """Why the opponents asked for cannot be; '' when they can."""
    side, found = config.opponents.side, sides_of(spec)
    if side is None:
        return ""
    if len(found) < 2:
        return f"opponents.side: {side} is asked for, and all agents of the task are on one side; leave it out"
    if side >= len(found):
        listed = ", ".join(f"{number} ({one.name})" for number, one in enumerate(found))
        return f"opponents.side: the task has no side {side}; there are {listed}"
    if config.evaluation.side == side:
        return f"evaluation.side: side {side} ({found[side].name}) does not learn; judge the run by another"
    if config.opponents.policies != RANDOM and fixed is None:
        return "opponents.policies: the run was begun without them"
    return ""
