"""The first team of a run, the side that does not learn (how it acts, where its policies are stored), and scripted
players."""

from typing import Literal

from msgspec.structs import replace

from marless.coordinator.config.schema import RANDOM, RunConfig, Sharing
from marless.coordinator.core.sides import Side, classes_by_side, ranked_side, sides_of
from marless.coordinator.rules.sharing import SHARING_MODES, by_name
from marless.functions import keys
from marless.functions.environments.base import EnvSpec
from marless.functions.environments.scripted import script_names
from marless.functions.messages.message import Message, Ref
from marless.functions.messages.team import Opponents, Team

# Where the opponents' policies are stored for the whole run. template.yaml lets functions read this key.
KEY = keys.object_key("rounds/opponents", "policies")


class FixedOpponents(Message, frozen=True, kw_only=True):
    """The policies of opponents that do not learn, one group for each agent."""

    policies: Ref
    greedy: bool = False
    """The policies are deterministic: no actions are drawn from them."""


def initial_team(config: RunConfig, spec: EnvSpec, policies: FixedOpponents | None) -> Team:
    """The team of the first round: the groups of the sharing rule, and the side that does not learn, if there is
    one."""
    sharing = config.sharing
    mode = SHARING_MODES[sharing.rule]
    if mode.groups_from_config:
        groups = by_name(spec.agents, sharing.groups or ())
    else:
        groups = mode.initial(classes_by_side(spec), sharing.start)
    team = Team(groups=groups, identity=takes_identity(sharing), kernels=config.algorithm.engine == "native")
    return with_opponents(config, spec, policies, team)


def takes_identity(settings: Sharing) -> bool:
    """Return whether networks take the agent's one-hot."""
    return SHARING_MODES[settings.rule].identity if settings.identity is None else settings.identity


def with_opponents(config: RunConfig, spec: EnvSpec, policies: FixedOpponents | None, team: Team) -> Team:
    """`team` with every agent of the side that does not learn, if there is one, in a group by itself."""
    if config.opponents.side is None:
        return team
    agents = sides_of(spec)[config.opponents.side].agents
    acting: Literal["drawn", "greedy", "random", "scripted"] = "random"
    script = ""
    if policies is not None:
        acting = "greedy" if policies.greedy else "drawn"
    elif script_names.is_scripted_name(config.opponents.policies):
        acting, script = "scripted", script_names.reference(config.opponents.policies, config.task.name)
    groups = tuple(agent if agent in agents else group for agent, group in enumerate(team.groups))
    return replace(team, groups=groups, opponents=Opponents(agents=agents, acting=acting, script=script))


def evaluated_side(config: RunConfig, spec: EnvSpec) -> Side | None:
    """Return the learning side that ranks the policies of the run by its return, see `ranked_side`."""
    return ranked_side(spec, config.evaluation.side, config.opponents.side)


def parts(team: Team, policies: FixedOpponents | None) -> tuple[str, ...]:
    """The parts of the run's state that the opponents' object holds."""
    return tuple(f"policy/{keys.group_name(agent)}" for agent in team.fixed) if policies else ()


def incompatibility(config: RunConfig, spec: EnvSpec, policies: FixedOpponents | None) -> str:
    """Return the reason why the task cannot have the configured opponents, or ''."""
    side, sides = config.opponents.side, sides_of(spec)
    if side is None:
        return ""
    if len(sides) < 2:
        return f"opponents.side: {side} is asked for, and all agents of the task are on one side; leave it out"
    if side >= len(sides):
        side_list = ", ".join(f"{number} ({listed_side.name})" for number, listed_side in enumerate(sides))
        return f"opponents.side: the task has no side {side}; there are {side_list}"
    if config.evaluation.side == side:
        return f"evaluation.side: side {side} ({sides[side].name}) does not learn; judge the run by another"
    text = config.opponents.policies
    if script_names.is_scripted_name(text):
        return unscripted("opponents.policies", text, config.task.name, spec)
    if text != RANDOM and policies is None:
        return "opponents.policies: the run was begun without them"
    return ""


def scripted_team(agents: int, script: str) -> Team:
    """Return a team of `agents` agents that all act by a script, see `script_names.reference`."""
    everyone = tuple(range(agents))
    return Team(groups=everyone, opponents=Opponents(agents=everyone, acting="scripted", script=script))


def unscripted(setting: str, text: str, task: str, spec: EnvSpec) -> str:
    """Return the reason why the scripted player that `setting` names cannot play the task, or ''."""
    if any(kind.continuous for kind in spec.classes):
        return f"{setting}={text}: scripted players choose among actions, and those of {task} are continuous"
    if any(kind.branches for kind in spec.classes):
        return f"{setting}={text}: scripted players make one choice, and agents of {task} make several at once"
    if not script_names.is_scripted_name(text):
        return f"{setting}={text}: a scripted player is named scripted or package.module:function"
    try:
        script_names.reference(text, task)
    except ValueError as error:
        return f"{setting}={text}: {error}"
    return ""
