"""The tables of the ceiling: one row for each task, and the comparison of the two chosen arms."""

from collections.abc import Sequence
from statistics import geometric_mean

import msgspec

from benchmarks.entities import table
from benchmarks.entities.registered import ListOfArms, load
from benchmarks.entities.runs import Run
from marless.reports.text import markdown_table

_CHOOSE = "choose, "
_HEADER = ("task", "best constant", "dollars", "best schedule", "dollars", "saved")


def text(name: str, runs: Sequence[Run]) -> str:
    """Return a row for each task, and the usual tables of the lists that compare the chosen two."""
    file = load(name)
    rows = [_row(study, runs) for study in file.lists if study.name.startswith(_CHOOSE)]
    judged = [study for study in file.lists if not study.name.startswith(_CHOOSE)]
    tables = [table.text(msgspec.structs.replace(file, lists=judged), runs)] if judged else []
    return "\n\n".join([markdown_table(_HEADER, rows), *tables])


def _row(study: ListOfArms, runs: Sequence[Run]) -> tuple[str, ...]:
    dollars = {arm: _dollars(study, arm, runs) for arm in study.arms}
    constants = {arm: price for arm, price in dollars.items() if arm.isdigit() and price}
    schedules = {arm: price for arm, price in dollars.items() if not arm.isdigit() and price}
    task = study.name.removeprefix(_CHOOSE)
    if not constants or not schedules:
        return task, *["not run"] * 5
    constant, schedule = min(constants, key=constants.__getitem__), min(schedules, key=schedules.__getitem__)
    saved = f"{1 - schedules[schedule] / constants[constant]:.0%}"
    return task, constant, f"{constants[constant]:.5f}", schedule, f"{schedules[schedule]:.5f}", saved


def _dollars(study: ListOfArms, arm: str, runs: Sequence[Run]) -> float:
    """Return the geometric mean over seeds, 0 if an arm did not run. All dollars of a run that missed count."""
    of_arm = table.newest([run for run in runs if (run.study, run.arm) == (study.name, arm)]).values()
    paid = [run.dollars_to.get(f"{study.targets[0]:g}") or run.dollars or 0.0 for run in of_arm]
    return geometric_mean(paid) if paid else 0.0
