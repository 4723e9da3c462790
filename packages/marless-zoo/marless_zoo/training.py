"""Trains teams with `marless train`, and stores them or compares their hashes."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from marless.coordinator.errors import UserError
from marless.coordinator.file_reading import read_file
from marless.functions import codec
from marless.reports.atomic_files import write_for_user
from marless.reports.policy import load_policy
from marless.runs import summary
from marless.runs.folder import CONFIG, POLICIES, RunFolder
from marless.runs.summary import Summary
from marless_zoo import stored_team
from marless_zoo.final_episodes import final_returns
from marless_zoo.stored_team import CONFIGURATION, FOLDER, StoredTeam, stored_teams

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")


def add(name: str, settings: Sequence[str], folder: Path = FOLDER) -> StoredTeam:
    """Train the run runs/`name` in the current folder to its end, and store its team in `folder`.

    Raises `UserError` for an unsuitable name, an unfinished run, and a return that differs when it is played again.
    """
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is not a name: use at most 41 lower-case letters, digits and '-', with a letter or digit first"
        )
    run = RunFolder(Path.cwd() / "runs" / name)
    results = _trained(run, settings)
    body = read_file(run.path / POLICIES)
    reference = codec.reference(name, body)
    config, policies = run.config(), load_policy(run.path)
    assert results.final_return is not None and results.weights_sha256 is not None
    team = StoredTeam(
        name=name,
        task=config.task.name,
        algorithm=config.algorithm.name,
        agents=len(policies.agents),
        seed=config.seed,
        settings=tuple(settings),
        commit=results.commit or "",
        rounds=results.rounds,
        env_steps=results.env_steps,
        sha256=reference.sha256,
        size=reference.size,
        weights_sha256=results.weights_sha256,
        returns=results.final_return,
        side=results.side,
        processors=(_processor(run),),
    )
    write_for_user(folder / f"{name}{stored_team.POLICIES}", body)
    write_for_user(folder / f"{name}{CONFIGURATION}", _without_comments(read_file(run.path / CONFIG)))
    if (returns := final_returns(team, folder)) != team.returns:
        raise UserError(f"{name} returned {team.returns.mean} in its run, and {returns.mean} when it was played again")
    team.write(folder)
    return team


def reproduce(names: Sequence[str], folder: Path = FOLDER) -> int:
    """Train teams from their stored configurations, all by default. Print whether the hash of all weights is equal.

    Add this processor to the records of those. Returns 1 if a hash differs.
    """
    teams = [stored_team.stored_team(name, folder) for name in names] or stored_teams(folder)
    different = 0
    for team in teams:
        with tempfile.TemporaryDirectory(prefix="zoo-") as temporary:
            run = RunFolder(Path(temporary) / "runs" / team.name)
            weights = _trained(run, [str(folder / f"{team.name}{CONFIGURATION}")]).weights_sha256
            processor = _processor(run)
        is_equal = weights == team.weights_sha256
        different += not is_equal
        print(f"{team.name}: {'equal' if is_equal else f'{weights} in place of {team.weights_sha256}'}, {processor}")
        if is_equal and processor not in team.processors:
            replace(team, processors=(*team.processors, processor)).write(folder)
    return int(different > 0)


def _trained(run: RunFolder, settings: Sequence[str]) -> Summary:
    """Train the run to its end, and return its summary. A begun run continues. Its folder is in a folder `runs`."""
    if not summary.has_finished(run):
        name = run.path.name
        words = ["resume", name] if run.begun else ["train", *settings, "--run", name]
        command = [sys.executable, "-m", "marless.cli.app", *words, "--workers", "1"]
        subprocess.run(command, cwd=run.path.parents[1], check=False)
    results = summary.read(run)
    if results is None or not summary.has_finished(run):
        raise UserError(f"the run {run.path} has not finished: see its messages above")
    return results


def _without_comments(toml: bytes) -> bytes:
    return b"".join(line for line in toml.splitlines(keepends=True) if not line.startswith(b"#"))


def _processor(run: RunFolder) -> str:
    """The processor of the run, without the hash of its features."""
    return run.identity().environment_fingerprint.machine.rpartition(" ")[0]
