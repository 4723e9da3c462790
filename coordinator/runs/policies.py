"""Policies of runs: downloaded to be played, loaded as a team, and stored as a new run's opponents."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from coordinator.config.schema import RANDOM, RunConfig
from coordinator.core import opponents
from coordinator.core.opponents import Fixed
from coordinator.core.sides import Side, sides_of
from coordinator.drive.ports import Storage
from coordinator.errors import UserError
from coordinator.reports.policy import TeamPolicy, load_policy
from coordinator.runs.documents import header_of
from coordinator.runs.folder import RunFolder
from coordinator.runs.stored import Stored, look
from functions import codec
from functions.contract import CorruptObject, NoSuchObject, Ref, TaskHeader
from functions.environments.base import EnvTask
from infra.local.files import FileStorage

# While a run goes on, its older objects disappear; by then it has newer policies.
_TRIES = 5


def download(folder: RunFolder, temporary: Path) -> Stored:
    """The run as it stands, the policies of its newest state under `temporary`/objects; raises `UserError`."""
    for _ in range(_TRIES):
        with look(folder) as found:
            if not found.kept.policies:
                raise UserError(f"{folder.name} has no policies yet")
            try:
                _download_policies(folder, found, temporary / "objects")
            except (FileNotFoundError, NoSuchObject):
                continue
            return found
    raise UserError(f"{folder.name}: objects of its newest policies are missing; see marless verify {folder.name}")


@contextmanager
def temporary_download(folder: RunFolder) -> Iterator[tuple[Stored, Path]]:
    """What `download` gives, and the folder, which is there until the caller is done."""
    with TemporaryDirectory(prefix="marless-") as temporary:
        yield download(folder, Path(temporary)), Path(temporary)


def load_team(folder: RunFolder) -> tuple[Stored, TeamPolicy]:
    """The run as it stands, and its newest policies, ready to play; raises `UserError`."""
    with temporary_download(folder) as (found, temporary):
        objects, tensors, team = FileStorage(temporary / "objects"), codec.Tensors(), found.kept.team
        for ref in found.kept.policies:
            tensors |= codec.decode(codec.verified(ref, objects.get(ref.key)), ref.key)
    assert team is not None
    return found, TeamPolicy(header_of(found.plan, found.kept.env_spec, team), tensors)


def _download_policies(folder: RunFolder, found: Stored, target: Path) -> None:
    """A run in the cloud is played here too: its policies are fetched."""
    if found.identity.deployment_ref is None:
        link_objects(folder.path / "objects", target, found.kept.policies)
        return
    objects = FileStorage(target)
    for ref in found.kept.policies:
        objects.put(ref.key, codec.verified(ref, found.storage.get(ref.key)))


def link_objects(objects: Path, target: Path, refs: Iterable[Ref]) -> None:
    """Makes objects of a run available in another folder, so that no later round of the run takes them away."""
    for ref in refs:
        path = target / ref.key
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(objects / ref.key, path)
        except FileNotFoundError:
            raise
        except OSError:  # another file system
            shutil.copyfile(objects / ref.key, path)


def find_policies(text: str, task: EnvTask, where: str) -> TeamPolicy:
    """The newest policies of a run, or those of a policy file; raises `UserError`, which begins with `where`."""
    try:
        team = load_policy(text) if Path(text).is_file() else load_team(RunFolder.find(text))[1]
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
