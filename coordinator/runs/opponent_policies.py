"""The policies of a run's opponents: found where the user says, and made an object of the run's own."""

from pathlib import Path

from msgspec.structs import replace

from coordinator.config.schema import RANDOM, RunConfig
from coordinator.core import opponents
from coordinator.core.opponents import Fixed
from coordinator.core.sides import Side, sides_of
from coordinator.drive.ports import Storage
from coordinator.errors import UserError
from coordinator.reports.policy import TeamPolicy, load_policy
from coordinator.runs.downloads import team_of
from coordinator.runs.folder import RunFolder
from functions import codec
from functions.contract import CorruptObject, TaskHeader
from functions.environments.base import EnvTask


def find_policies(text: str, task: EnvTask, where: str) -> TeamPolicy:
    """The newest policies of a run, or those of a policy file; raises `UserError`, which begins with `where`."""
    try:
        team = load_policy(text) if Path(text).is_file() else team_of(RunFolder.find(text))[1]
    except (CorruptObject, UserError) as error:
        raise UserError(f"{where}: {error}") from error
    if team.task != task:
        raise UserError(f"{where} {text}: it was trained on another task ({team.task.name}, or other options)")
    return team


def with_absolute_policies(config: RunConfig) -> RunConfig:
    """The configuration for runs made in other folders; raises `UserError` where there are no such policies."""
    text = config.opponents.policies
    if text == RANDOM:
        return config
    path = Path(text) if Path(text).is_file() else RunFolder.find(text).path
    return replace(config, opponents=replace(config.opponents, policies=str(path.resolve())))


def store_opponents(config: RunConfig, run: str, storage: Storage) -> Fixed | None:
    """Stores the opponents' policies for a run that begins, so that it needs nothing of another's; None where there are
    none. Raises `UserError` for what cannot play, `StorageFault`."""
    wanted = config.opponents
    if wanted.side is None or wanted.policies == RANDOM:
        return None
    team = find_policies(wanted.policies, config.task, "opponents.policies")
    tensors = team.apart(_side(team, wanted.side).agents, config.sharing.rule != "none")
    body = codec.encode(tensors, TaskHeader(task=f"{run}/opponents"))
    # What lies there is of a run of this name that never began.
    storage.delete([opponents.KEY])
    storage.put(opponents.KEY, body)
    return Fixed(policies=codec.reference(opponents.KEY, body), greedy=team.greedy)


def _side(team: TeamPolicy, number: int) -> Side:
    """The side that is to play; raises `UserError` where it cannot."""
    sides = sides_of(team.spec)
    if number >= len(sides):
        listed = ", ".join(f"{side.number} ({side.name})" for side in sides)
        there = f"there are {listed}" if sides else "all its agents are on one side"
        raise UserError(f"opponents.side: {team.task.name} has no side {number}; {there}")
    side = sides[number]
    if without := [team.agents[agent] for agent in side.agents if not team.plays(agent)]:
        raise UserError(f"opponents.policies: {', '.join(without)} acted at random there and has no policy")
    return side
