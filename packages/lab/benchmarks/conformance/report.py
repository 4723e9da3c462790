"""Writes the report files: conformance.md, the layout of marl-eval, and curves."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.conformance import pictures, tables
from benchmarks.conformance.cases import REFERENCE
from benchmarks.conformance.outcomes import Outcome, names_of, outcomes
from benchmarks.conformance.protocols import FULL, QUICK
from benchmarks.conformance.record import Record
from benchmarks.launch import ROOT
from marless.functions.environments.base import EnvTask
from marless.reports import evaluations
from marless.reports.atomic_files import replace
from marless.reports.evaluations import Evaluation
from marless.reports.provenance import written_by

_MARL_EVAL = "-marl-eval.json"


def read(folder: Path) -> list[Outcome]:
    """Return the outcomes of both protocols. Raise `UnreadableFile`."""
    # The longer protocol comes last: `layout` and `_marl_eval` depend on this order.
    return [*outcomes(QUICK, folder), *outcomes(FULL, folder)]


def write(folder: Path) -> list[Outcome]:
    """Writes all files into `folder` and returns the outcomes.

    Raises `UnreadableFile` and `OSError`.
    """
    found = read(folder)
    files = _marl_eval(found)
    for name, content in files.items():
        _json(folder / name, content)
    for left in {path.name for path in folder.glob(f"*{_MARL_EVAL}")} - files.keys():
        (folder / left).unlink()
    drawn = pictures.draw(found, folder)
    text = tables.document(_reported(found), drawn)
    replace(folder / "conformance.md", f"{text}\n{written_by()}\n".encode())
    return found


def lines() -> list[str]:
    """Return the lines of docs/results/conformance.md, without pictures. Raise `UnreadableFile`."""
    found = read(ROOT / "docs" / "results")
    return tables.document(_reported(found), ()).split("\n")


def _reported(found: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in found if outcome.records or outcome.protocol == FULL.name]


def _marl_eval(found: Sequence[Outcome]) -> dict[str, evaluations.Document]:
    """Documents by file name, one for each task and protocol, because marl-eval expects the seeds of a file's first
    algorithm for all its algorithms. The longer protocol's file has the plain name."""
    files: dict[str, evaluations.Document] = {}
    names = names_of(found)
    longest = {outcome.case.task: outcome.protocol for outcome in found if outcome.finished}
    for outcome in found:
        case = outcome.case
        if not outcome.finished or case.treatment == REFERENCE:
            continue
        name = case.task if outcome.protocol == longest[case.task] else f"{case.task}-{outcome.protocol}"
        whole = files.setdefault(f"{name}{_MARL_EVAL}", {})
        for made in outcome.finished:
            evaluations.merge(whole, _one(made, names[case.arm.name], outcome.value(made)))
    return files


def _one(made: Record, name: str, value: float | None) -> evaluations.Document:
    """One run with the absolute metric `value`. Evaluations hold means over episodes, to keep the file small."""
    agents = made.settings.get("task.agents")
    task = EnvTask(name=str(made.settings["task.name"]), agents=agents if isinstance(agents, int) else None)
    points = [Evaluation(step_count=point.env_steps, returns=(point.mean,)) for point in made.curve]
    absolute = [] if value is None else [value]
    return evaluations.document(task, name, made.seed, points, absolute)


def _json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
