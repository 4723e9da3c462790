"""marless runs verify: checks a run's objects and weights against the hashes that the run recorded."""

import dataclasses
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass

from marless.cli import arguments as common
from marless.coordinator.core.state import State
from marless.coordinator.errors import FINISHED, UNFINISHED, UserError
from marless.coordinator.file_reading import UnreadableFile, read_file
from marless.functions import codec, keys
from marless.functions.errors import CorruptObject, NoSuchObject
from marless.functions.messages.message import Ref
from marless.functions.resources.kept_answers import kept_answer
from marless.output import say, say_json
from marless.reports.provenance import CodeChange
from marless.reports.text import counted
from marless.reports.weights import weights_sha256
from marless.runs import summary
from marless.runs.folder import BEST_POLICIES, POLICIES, RunFolder
from marless.runs.integrity.file_hashes import changed
from marless.runs.run_files import Documents
from marless.runs.run_store import RUNS
from marless.runs.stored_run import Stored, look

EXAMPLES = """examples:
  marless runs verify           checks the latest run
  marless runs verify first --json  checks runs/first, and prints JSON"""

_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Verified:
    """The result: `behind` describes outdated files, and `not_covered` names files without a hash.

    With `any_processor` the run's bytes depend on the machines that served its tasks. With `as_published` the weights
    have the published hash that the user named. `code_changes`: the run continued with them."""

    problems: list[str]
    round: int
    objects: int
    answers: int
    weights_sha256: str
    behind: str
    not_covered: list[str]
    any_processor: bool
    as_published: bool
    code_changes: Sequence[CodeChange]


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.run(parser)
    common.json(parser)
    parser.add_argument(
        "--published", metavar="SHA256", help="the weights_sha256 of a published run, which this one repeats"
    )


def run(options: Namespace) -> int:
    """Compare hashes. Returns 1 if some differ."""
    published = (options.published or "").lower()
    if published and not _HASH.fullmatch(published):
        raise UserError(f"--published {options.published}: a weights_sha256 has 64 digits from 0 to f")
    folder = RUNS.find(options.run)
    with look(folder) as stored_run:
        last_state = stored_run.saved_state
        states = [state for state in (last_state, stored_run.checkpoint) if state is not None]
        refs = list(dict.fromkeys(ref for state in states for ref in state.durable_refs))
        refs += [ref for ref in stored_run.plan.inputs.refs() if ref not in refs]
        problems = [problem for ref in refs if (problem := _object(stored_run, ref))]
        weights = "" if problems or not last_state.objects else weights_sha256(last_state, stored_run.storage)
        problems += [stored_run.lost] if stored_run.lost else []
        answers, damaged_answers = _answers(stored_run)
        problems += damaged_answers
        problems += _summary(folder, stored_run, weights) + ([] if problems else _policies(folder, stored_run))
        changes, not_covered = changed(
            stored_run.ledger, folder, stored_run.identity, stored_run.state, stored_run.driven
        )
        problems += changes + (
            ["config.toml was edited after the run began"] if folder.edited(stored_run.identity) else []
        )
    if published and not problems and weights != published:
        problems.append(f"weights_sha256 is {weights or 'not there yet'}, not the published {published}")
    identity = stored_run.identity
    result = Verified(
        problems,
        last_state.round,
        len(refs),
        answers,
        weights,
        _behind(folder, stored_run.state),
        not_covered,
        identity.any_processor,
        bool(published) and weights == published,
        identity.changes,
    )
    _show(options, folder, result)
    return UNFINISHED if problems else FINISHED


def _show(options: Namespace, folder: RunFolder, result: Verified) -> None:
    if options.json:
        say_json({"run": folder.name, "ok": not result.problems, **dataclasses.asdict(result)})
        return
    answers_text = f", {counted(result.answers, 'kept answer')}" if result.answers else ""
    findings = result.problems or [
        f"OK, round {result.round}, {result.objects} objects{answers_text}, "
        f"weights_sha256 {result.weights_sha256 or 'not yet'}{' as published' if result.as_published else ''}"
    ]
    files_text = f"not covered: {', '.join(result.not_covered)}" if result.not_covered else ""
    processors = "began or went on with `any_processor`, so another machine may give other bytes"
    changes = [change.text for change in result.code_changes]
    remarks = (result.behind, files_text, processors if result.any_processor else "", *changes)
    say(f"{folder.name}: {'; '.join([*findings, *filter(None, remarks)])}")


def _behind(folder: RunFolder, state: State) -> str:
    if (run_summary := summary.earlier(folder)) is None:
        return "summary.json is missing or cannot be read"
    if run_summary.rounds == state.round:
        return ""
    return f"summary.json is of round {run_summary.rounds}, the run is at round {state.round}"


def _object(stored_run: Stored, ref: Ref) -> str:
    try:
        codec.fetch(stored_run.storage, ref)
    except (CorruptObject, NoSuchObject) as error:
        return str(error)
    return ""


def _answers(stored_run: Stored) -> tuple[int, list[str]]:
    if not any(resource.keep for resource in stored_run.plan.config.resources.values()):
        return 0, []
    problems, stored_keys = [], stored_run.storage.list(keys.ANSWERS)
    for key in stored_keys:
        try:
            kept_answer(stored_run.storage, key.removeprefix(keys.ANSWERS))
        except CorruptObject as error:
            problems.append(str(error))
    return len(stored_keys), problems


def _summary(folder: RunFolder, stored_run: Stored, weights: str) -> list[str]:
    run_summary = summary.earlier(folder)
    if (
        run_summary is None
        or run_summary.weights_sha256 is None
        or run_summary.rounds != stored_run.saved_state.round
        or not weights
    ):
        return []
    if run_summary.weights_sha256 == weights:
        return []
    return [f"summary.json names weights {run_summary.weights_sha256}, the objects give {weights}"]


def _policies(folder: RunFolder, stored_run: Stored) -> list[str]:
    run_summary, state = summary.earlier(folder), stored_run.saved_state
    if run_summary is None or run_summary.weights_sha256 is None or run_summary.rounds != state.round:
        return []
    documents = Documents(folder, stored_run.plan, stored_run.identity, stored_run.storage)
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
