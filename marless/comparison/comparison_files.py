"""The files of a comparison: compare.md, compare.csv, marl-eval.json and the pictures."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from marless.comparison import comparison_plots, score_tables
from marless.comparison.arms_of_runs import ComparedArm
from marless.comparison.comparison import Comparison
from marless.functions.encoding import to_json
from marless.reports import evaluations
from marless.reports.atomic_files import replace, storage_errors
from marless.reports.evaluations import Document
from marless.reports.plot_style import draw_if_possible
from marless.reports.provenance import written_by


def write(folder: Path, comparison: Comparison, arms: Sequence[ComparedArm], left_out: Mapping[str, str]) -> list[str]:
    """Writes all files. Returns the pictures' names, [] without matplotlib. Raises `StorageFault`."""
    with storage_errors(f"into {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        files = draw_if_possible(partial(comparison_plots.draw, comparison, folder))
        text = f"{score_tables.markdown(comparison, left_out, files)}\n{written_by()}\n"
        replace(folder / "compare.md", text.encode())
        replace(folder / "compare.csv", score_tables.comma_separated(comparison).encode())
        replace(folder / "marl-eval.json", to_json(marl_eval(arms)) + b"\n")
    return files


def marl_eval(arms: Sequence[ComparedArm]) -> Document:
    """All runs in one document in the layout of marl-eval, arms in the place of algorithms."""
    whole: Document = {}
    for arm in arms:
        for task, runs in arm.runs.items():
            environment, _, scenario = task.partition("/")
            seeds = {f"seed_{seed}": run.entries for seed, run in runs.items()}
            evaluations.merge(whole, {environment: {scenario: {arm.name: seeds}}})
    return whole
