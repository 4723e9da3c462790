"""The networks that agents use in a team of another size."""

import msgspec

from marless.coordinator.errors import UserError
from marless.functions.environments.base import EnvSpec, EnvTask
from marless.functions.messages.team import Team


def regrouped(team: Team, old: EnvSpec, new: EnvSpec, task: EnvTask, trained: str) -> Team:
    """The `team` of the task `old` in another task.

    Other agents use the networks of their class's earlier agents in turn. `trained` names the policies in messages.
    Raises `UserError` for policies that know their agents by number, and for other classes or sides.
    """
    if _members(new) == _members(old):
        return team
    if team.identity and len(new.agents) != len(old.agents):
        known_by = f"the policies of {trained} know their {len(old.agents)} agents by number"
        raise UserError(f"{known_by}; train with sharing.identity=false")
    names = {kind.name: kind for kind in old.classes}
    if new.sides or old.sides or any(kind.name not in names for kind in new.classes):
        agents = f"its agents are {', '.join(new.agents)}"
        raise UserError(f"{task.name} so has other classes or sides than {trained} was trained with: {agents}")
    groups = [0] * len(new.agents)
    for kind in new.classes:
        agents_of_kind = names[kind.name].agents
        for place, agent in enumerate(kind.agents):
            groups[agent] = team.groups[agents_of_kind[place % len(agents_of_kind)]]
    return msgspec.structs.replace(team, groups=tuple(groups), identity=False, opponents=None)


def _members(spec: EnvSpec) -> tuple[object, ...]:
    return spec.sides, [(kind.name, kind.agents) for kind in spec.classes]
