"""One table of the registered defaults: a row for each environment, with both arms."""

from collections.abc import Sequence
from statistics import fmean

from benchmarks.entities.registered import load
from benchmarks.entities.runs import Run
from benchmarks.entities.table import newest
from benchmarks.table import spread
from marless.reports.text import markdown_table

ARMS = ("today", "new")
_HEADER = ("environment", "seeds", "today", "new", "better")


def text(name: str, runs: Sequence[Run]) -> str:
    """Return the table and the bar's count. An environment counts if both arms have as many seeds."""
    rows, better, worse, judged = [], 0, 0, 0
    for study in load(name).lists:
        of_list = [run for run in runs if run.study == study.name]
        arms = {arm: list(newest([run for run in of_list if run.arm == arm]).values()) for arm in ARMS}
        today, new = ([run.best for run in arms[arm] if run.best is not None] for arm in ARMS)
        is_judged = bool(today) and len(today) == len(new)
        judged += is_judged
        better += is_judged and fmean(new) > fmean(today)
        worse += is_judged and max(new) < min(today)
        label = ("yes" if fmean(new) > fmean(today) else "no") if is_judged else ""
        shown = (f"{fmean(best):.2f}, {spread(best, '.2f')}" if best else "not run" for best in (today, new))
        rows.append((study.name.removeprefix("defaults, "), str(len(new)), *shown, label))
    count = f"`new` is better in {better} of {judged}, and each seed is below each of `today` in {worse}."
    return f"{markdown_table(_HEADER, rows)}\n\n{count}"
