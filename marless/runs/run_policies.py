"""Policies of runs: downloaded to be played, loaded as a team, and stored as a new run's opponents."""

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace
from numpy.typing import NDArray

from marless.coordinator.config.schema import RANDOM, RunConfig
from marless.coordinator.core import opponents
from marless.coordinator.core.opponents import FixedOpponents, unscripted
from marless.coordinator.core.sides import Side, sides_of
from marless.coordinator.drive.ports import Storage
from marless.coordinator.errors import UserError
from marless.functions import codec
from marless.functions.environments.base import EnvTask
from marless.functions.environments.scripted import script_names
from marless.functions.errors import CorruptObject, NoSuchObject
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.message import Ref
from marless.infra.local.file_storage import FileStorage
from marless.program import program_name
from marless.reports.policy import TeamPolicy, load_policy, same_task, scripted_policy
from marless.runs.folder import RunFolder
from marless.runs.integrity.code_record import remark
from marless.runs.run_files import header_of
from marless.runs.run_store import RUNS, RunStore
from marless.runs.stored_run import Stored, look

# A running run deletes older objects, but by then it has newer policies.
_TRIES = 5


def download(folder: RunFolder, temporary: Path) -> Stored:
    """Download the newest policies to `temporary`/objects. Returns the run's stored state. Raises `UserError`."""
    for _ in range(_TRIES):
        with look(folder) as run:
            if run.lost:
                raise UserError(
                    f"{folder.name}: {run.lost}, and these policies are older than its results; restore the ledger,"
                    f" or train that part again: {program_name()} resume {folder.argument}"
                )
            if not run.saved_state.policies:
                raise UserError(f"{folder.name} has no policies yet")
            try:
                _download_policies(folder, run, temporary / "objects")
            except (FileNotFoundError, NoSuchObject):
                continue
            _remark_code(folder, run)
            return run
    raise UserError(
        f"{folder.name}: objects of its newest policies are missing; see {program_name()} runs verify {folder.argument}"
    )


@contextmanager
def temporary_download(folder: RunFolder) -> Iterator[tuple[Stored, Path]]:
    """`download` to a temporary folder, which is deleted when the block ends."""
    with TemporaryDirectory(prefix="marless-") as temporary:
        yield download(folder, Path(temporary)), Path(temporary)


def load_team(folder: RunFolder, agents: int | None = None) -> tuple[Stored, TeamPolicy]:
    """Return the run's stored state and its newest policies, ready to play with `agents` agents (default: like
    training). Raises `UserError`."""
    with temporary_download(folder) as (run, temporary):
        if run.plan.inputs.language_model is not None:
            ways = "marless evaluate, replay, or export --to peft"
            raise UserError(f"{folder.name} has adapters of agents that speak, which networks do not play: {ways}")
        tensors = codec.fetch_tensors(FileStorage(temporary / "objects"), run.saved_state.policies)
    team = run.saved_state.team
    assert team is not None
    policy = TeamPolicy(header_of(run.plan, run.saved_state.env_spec, team), tensors)
    return run, policy.of_size(agents) if agents else policy


def load_checkpoints(folder: RunFolder) -> tuple[Stored, dict[str, TeamPolicy]]:
    """Return the run's stored state and its league's checkpoints by name (``round 40``). Raises `UserError`."""
    teams = {}
    with look(folder) as run:
        state, storage = run.saved_state, run.storage
        for checkpoint in state.league.checkpoints if state.league else ():
            tensors = codec.fetch_tensors(storage, checkpoint.policies)
            header = header_of(run.plan, state.env_spec, checkpoint.team)
            name = script_names.SCRIPTED if checkpoint.scripted else f"round {checkpoint.round}"
            teams[name] = TeamPolicy(header, tensors)
        if not teams:
            raise UserError(f"{folder.name} has no checkpoints (league.rule); name several runs")
        _remark_code(folder, run)
        return run, teams


def _remark_code(folder: RunFolder, run: Stored) -> None:
    if line := remark(folder, run.identity, run.plan.config):
        logging.getLogger(__name__).warning(line)


def _download_policies(folder: RunFolder, run: Stored, target: Path) -> None:
    if run.identity.deployment_ref is None:
        model = run.plan.inputs.language_model
        link_objects(folder.path / "objects", target, [*run.saved_state.policies, *([model.base] if model else [])])
        return
    objects = FileStorage(target)
    for ref in run.saved_state.policies:
        objects.put(ref.key, codec.fetch(run.storage, ref))


def link_objects(objects: Path, target: Path, refs: Iterable[Ref]) -> None:
    """Links objects of a run into another folder, where later rounds of the run do not delete them."""
    for ref in refs:
        path = target / ref.key
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(objects / ref.key, path)
        except FileExistsError:  # an earlier try linked it before it missed another one
            continue
        except FileNotFoundError:
            raise
        except OSError:  # another file system
            shutil.copyfile(objects / ref.key, path)


def find_policies(text: str, task: EnvTask, where: str, store: RunStore) -> TeamPolicy:
    """Return the newest policies of a run in the store, the policies in a file, or a scripted player.

    Raises `UserError` with a message that begins with `where`.
    """
    try:
        if script_names.is_scripted_name(text):
            scripted_team = scripted_policy(task, script_names.reference(text, task.name))
            if problem := unscripted(where, text, task.name, scripted_team.spec):
                raise UserError(problem)
            return scripted_team
        team = load_policy(text) if Path(text).is_file() else load_team(store.find(text))[1]
    except (CorruptObject, UserError, ValueError) as error:
        raise UserError(f"{where}: {error}") from error
    if not same_task(team.task, task):
        raise UserError(f"{where} {text}: it was trained on another task ({team.task.name}, or other options)")
    return team


def with_absolute_policies(config: RunConfig, store: RunStore = RUNS) -> RunConfig:
    """Return the configuration with absolute paths to the opponents' policies and to the base. Runs are in the store.
    Raise `UserError` if there are none."""
    if config.base.policies is not None:
        base = store.find(config.base.policies).path.resolve()
        config = replace(config, base=replace(config.base, policies=str(base)))
    text = config.opponents.policies
    if text == RANDOM or script_names.is_scripted_name(text):
        return config
    path = Path(text) if Path(text).is_file() else store.find(text).path
    return replace(config, opponents=replace(config.opponents, policies=str(path.resolve())))


def store_opponents(config: RunConfig, run: str, storage: Storage, store: RunStore) -> FixedOpponents | None:
    """Store a copy of the policies of a new run's opponents, for example of a run in the store. None without opponents.

    Raises `UserError` for policies that cannot play, and `StorageFault`.
    """
    settings = config.opponents
    if settings.side is None or settings.policies == RANDOM or script_names.is_scripted_name(settings.policies):
        return None
    team = find_policies(settings.policies, config.task, "opponents.policies", store)
    tensors = team.apart(_side(team, settings.side).agents, opponents.takes_identity(config.sharing))
    return FixedOpponents(policies=keep_opponents(tensors, run, storage), greedy=team.greedy)


def keep_opponents(tensors: Mapping[str, NDArray[Any]], run: str, storage: Storage) -> Ref:
    """Stores policies, each under the name of its agent as a group."""
    body = codec.encode(tensors, TaskHeader(task=f"{run}/opponents"))
    # An existing object belongs to a run of this name that never began.
    storage.delete([opponents.KEY])
    storage.put(opponents.KEY, body)
    return codec.reference(opponents.KEY, body)


def _side(team: TeamPolicy, number: int) -> Side:
    sides = sides_of(team.spec)
    if number >= len(sides):
        side_list = ", ".join(f"{side.number} ({side.name})" for side in sides)
        there = f"there are {side_list}" if sides else "all its agents are on one side"
        raise UserError(f"opponents.side: {team.task.name} has no side {number}; {there}")
    side = sides[number]
    if without := [team.agents[agent] for agent in side.agents if not team.plays(agent)]:
        raise UserError(
            f"opponents.policies: {', '.join(without)} has no policy there (acted at random or by a script)"
        )
    return side
