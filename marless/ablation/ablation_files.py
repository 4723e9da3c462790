"""The files that an ablation writes beside its runs: table.md, table.json, results.csv and the pictures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from functions.contract import MissingExtra, StorageFault
from functions.encoding import to_json_file
from functions.system_errors import explained
from marless.ablation import ablation_plots, result_tables
from marless.ablation.arms import controls, settings
from marless.ablation.declaration import Declaration
from marless.comparison.finished_run import FinishedRun
from marless.comparison.paired_by_seed import PairedComparison, Runs, compare_paired
from marless.reports.atomic_files import replace
from marless.reports.provenance import written_by
from marless.studies.cells import Arm, Cell

Play = Callable[[Path, int], dict[str, float]]


def add_plays(folder: Path, arms: Mapping[str, Arm], results: Mapping[str, Runs], play: Play) -> dict[str, Runs]:
    """The results with the returns of `play`, which gets every run's folder and seed."""
    return {
        name: {seed: _add_plays(folder, arms[name], result, play) for seed, result in runs.items()}
        for name, runs in results.items()
    }


def write(
    folder: Path,
    title: str,
    declaration: Declaration,
    arms: Mapping[str, Arm],
    results: Mapping[str, Runs],
    failures: Mapping[Cell, str],
    random: float | None,
) -> tuple[PairedComparison, list[str]]:
    """Writes all files; returns the comparison and the pictures' names, none without matplotlib.

    The first arm of `results` needs a run. Raises `StorageFault`.
    """
    comparison = compare_paired(results, random, declaration.headlines, controls(results))
    descriptions = {name: (arms[name].about, settings(arms[name], declaration.rollouts.get(name))) for name in results}
    rows = [result for runs in results.values() for result in runs.values()]
    try:
        files = _draw({name: runs for name, runs in results.items() if runs}, folder, title)
        text = result_tables.markdown(title, comparison, descriptions, [*_remarks(rows, failures), written_by()], files)
        replace(folder / "table.md", text.encode())
        replace(folder / "table.json", to_json_file(comparison))
        replace(folder / "results.csv", result_tables.comma_separated(rows).encode())
    except OSError as error:
        raise StorageFault(f"cannot write into {folder}: {explained(error)}") from error
    return comparison, files


def _draw(arms: Mapping[str, Runs], folder: Path, title: str) -> list[str]:
    try:
        return ablation_plots.draw(arms, folder, title)
    except MissingExtra:
        return []


def _add_plays(folder: Path, arm: Arm, result: FinishedRun, play: Play) -> FinishedRun:
    return msgspec.structs.replace(result, plays=play(Cell(arm, result.seed).folder(folder), result.seed))


def _remarks(results: Sequence[FinishedRun], failures: Mapping[Cell, str]) -> list[str]:
    """Remarks on the limits of the comparison."""
    remarks = []
    programs = {result.code for result in results}
    if len(programs) > 1:
        remarks.append(f"These runs are of {len(programs)} versions of the program, which may explain differences.")
    if failures:
        lines = [f"* {cell.arm.name}, seed {cell.seed}: {why}" for cell, why in failures.items()]
        remarks.append("\n".join(["Runs that failed and are left out:", "", *lines]))
    return remarks
