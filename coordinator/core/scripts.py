"""Scripted players as teams, and why a task cannot have one."""

from functions.contract import Opponents, Team
from functions.environments.base import EnvSpec
from functions.environments.scripted import registry


def scripted_team(agents: int, script: str) -> Team:
    """The team of a task with so many agents, all of which act by a script; see `registry.reference`."""
    everyone = tuple(range(agents))
    return Team(groups=everyone, opponents=Opponents(agents=everyone, acting="scripted", script=script))


def unscripted(setting: str, text: str, task: str, spec: EnvSpec) -> str:
    """Why the scripted player that `setting` names cannot play the task; '' when it can."""
    if any(kind.continuous for kind in spec.classes):
        return f"{setting}={text}: scripted players choose among actions, and those of {task} are continuous"
    if any(kind.branches for kind in spec.classes):
        return f"{setting}={text}: scripted players make one choice, and agents of {task} make several at once"
    if not registry.named(text):
        return f"{setting}={text}: a scripted player is named scripted or package.module:function"
    try:
        registry.reference(text, task)
    except ValueError as error:
        return f"{setting}={text}: {error}"
    return ""
