"""marless verify: checks a run's objects and weights against the hashes that the run recorded."""

import dataclasses
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass

from coordinator.core.state import State
from coordinator.errors import FINISHED, UNFINISHED
from coordinator.file_reading import UnreadableFile, read_file
from functions import codec
from functions.contract import CorruptObject, NoSuchObject, Ref
from marless.cli import arguments as common
from marless.output import say, say_json
from marless.reports.weights import weights_sha256
from marless.runs import summary
from marless.runs.documents import Documents
from marless.runs.folder import BEST_POLICIES, POLICIES, RunFolder
from marless.runs.integrity.file_hashes import changed
from marless.runs.stored import Stored, look


@dataclass(frozen=True)
class Verified:
    """The result; `behind` describes files that are merely out of date, `not_covered` are those without a hash."""

    problems: list[str]
    round: int
    objects: int
    weights_sha256: str
    behind: str
    not_covered: list[str]


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.run(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Compares hashes; 1 when something differs."""
    folder = RunFolder.find(options.run)
    with look(folder) as found:
        kept = found.kept
        states = [state for state in (kept, found.checkpoint) if state is not None]
        refs = list(dict.fromkeys(ref for state in states for ref in state.durable_refs))
        problems = [problem for ref in refs if (problem := _object(found, ref))]
        weights = "" if problems or not kept.objects else weights_sha256(kept, found.storage)
        problems += [found.lost] if found.lost else []
        problems += _summary(folder, found, weights) + ([] if problems else _policies(folder, found))
        changes, not_covered = changed(found.ledger, folder, found.identity, found.state, found.driven)
        problems += changes + (["config.toml was edited after the run began"] if folder.edited(found.identity) else [])
    verified = Verified(problems, kept.round, len(refs), weights, _behind(folder, found.state), not_covered)
    _show(options, folder, verified)
    return UNFINISHED if problems else FINISHED


def _show(options: Namespace, folder: RunFolder, verified: Verified) -> None:
    if options.json:
        fields = {"run": folder.name, "ok": not verified.problems, **dataclasses.asdict(verified)}
        say_json(fields)
        return
    findings = verified.problems or [
        f"OK, round {verified.round}, {verified.objects} objects, weights_sha256 {verified.weights_sha256 or 'not yet'}"
    ]
    listed = f"not covered: {', '.join(verified.not_covered)}" if verified.not_covered else ""
    say(f"{folder.name}: {'; '.join([*findings, *filter(None, (verified.behind, listed))])}")


def _behind(folder: RunFolder, state: State) -> str:
    """Which file is out of date, after a kill between a commit and the files written after it; '' when none is."""
    recorded = summary.read(folder)
    if recorded is None:
        return "summary.json is missing or cannot be read"
    if recorded.rounds == state.round:
        return ""
    return f"summary.json is of round {recorded.rounds}, the run is at round {state.round}"


def _object(found: Stored, ref: Ref) -> str:
    try:
        codec.fetch(found.storage, ref)
    except (CorruptObject, NoSuchObject) as error:
        return str(error)
    return ""


def _summary(folder: RunFolder, found: Stored, weights: str) -> list[str]:
    recorded = summary.read(folder)
    if recorded is None or recorded.weights_sha256 is None or recorded.rounds != found.kept.round or not weights:
        return []
    if recorded.weights_sha256 == weights:
        return []
    return [f"summary.json names weights {recorded.weights_sha256}, the objects give {weights}"]


def _policies(folder: RunFolder, found: Stored) -> list[str]:
    """Problems of the policy files, once the run has ended and they were written."""
    recorded, state = summary.read(folder), found.kept
    if recorded is None or recorded.weights_sha256 is None or recorded.rounds != state.round:
        return []
    documents = Documents(folder, found.plan, found.identity, found.storage)
    files = {POLICIES: (state.policies, state.team)}
    if state.best:
        files[BEST_POLICIES] = state.best.policies, state.best.team
    return [
        f"{name} does not match the objects"
        for name, (refs, team) in files.items()
        if refs and not _matches(folder, name, documents.policy_file(state, refs, team))
    ]


def _matches(folder: RunFolder, name: str, body: bytes) -> bool:
    try:
        return read_file(folder.path / name) == body
    except UnreadableFile:
        return False
