"""Arms out of files in the layout of marl-eval: algorithms on the tasks of one file or several, of any program."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from marless.comparison.arms_of_runs import ComparedArm, with_equal_seeds
from marless.comparison.run_evaluations import ComparedRun, curve_of
from marless.coordinator.errors import UserError
from marless.coordinator.file_reading import read_json
from marless.reports import evaluations
from marless.reports.evaluations import METRIC, STEPS, Document, RunEntries


def arms_of_files(paths: Sequence[Path], metric: str = METRIC) -> tuple[list[ComparedArm], dict[str, str]]:
    """Return the algorithms that are on every task of the files as arms, in the order of the first file. Also return
    why other algorithms, and runs with a seed that is missing on a task, are left out.

    A task takes part if it has an algorithm that all files have. Raises `UserError` for a file that is unreadable or
    lacks the metric, and if every algorithm lacks a task.
    """
    whole: dict[str, dict[str, dict[int, ComparedRun]]] = {}
    documents = {path: read_json(path, Document) for path in paths}
    for path, document in documents.items():
        for environment, scenarios in document.items():
            for scenario, algorithms in scenarios.items():
                task = f"{environment}/{scenario}"
                runs_by_algorithm = whole.setdefault(task, {})
                for algorithm, seeds in algorithms.items():
                    runs = runs_by_algorithm.setdefault(algorithm, {})
                    runs |= {run.seed: run for run in _runs(path, f"{task} {algorithm}", seeds, metric)}
    names = dict.fromkeys(name for algorithms in whole.values() for name in algorithms)
    common = set(names).intersection(*map(_algorithms, documents.values()))
    whole = {task: algorithms for task, algorithms in whole.items() if common & algorithms.keys()} or whole
    missing = {name: next((task for task in whole if name not in whole[task]), "") for name in names}
    if not (complete_names := [name for name, task in missing.items() if not task]):
        raise UserError(f"no algorithm is on all tasks of these files ({', '.join(whole)}); name files that share some")
    arms = [ComparedArm(name, {task: whole[task][name] for task in sorted(whole)}) for name in complete_names]
    equal, left_out = with_equal_seeds(arms)
    return equal, {name: f"it is not on {task}" for name, task in missing.items() if task} | left_out


def _algorithms(document: Document) -> set[str]:
    return {name for scenarios in document.values() for algorithms in scenarios.values() for name in algorithms}


def _runs(path: Path, name: str, seeds: dict[str, RunEntries], metric: str) -> list[ComparedRun]:
    runs = []
    for text, entries in seeds.items():
        # Other programs write ``run_1``, or the seed alone.
        number = text.rpartition("_")[2]
        if not number.isdecimal():
            raise UserError(f"{path}: {name} has {text!r} in the place of a seed, such as seed_1")
        runs.append(_run(path, f"{name} {text}", int(number), entries, metric))
    return runs


def _run(path: Path, name: str, seed: int, entries: RunEntries, metric: str) -> ComparedRun:
    steps = [entry for key, entry in entries.items() if key.startswith("step_")]
    if not steps or any(STEPS not in entry or not entry.get(metric) for entry in steps):
        metric_names = ", ".join(evaluations.metrics_of(entries))
        what = f"returns under {METRIC!r}" if metric == METRIC else f"the metric {metric!r} (it has {metric_names})"
        raise UserError(f"{path}: {name} needs evaluations with {STEPS!r} and {what}")
    by_step = evaluations.means(entries, metric)
    absolute = evaluations.absolute(entries, metric)
    return ComparedRun(
        name=name,
        config={"seed": seed},
        curve=curve_of(by_step),
        absolute=float(np.mean(absolute)) if absolute else None,
        entries=entries,
        summary=None,
    )
