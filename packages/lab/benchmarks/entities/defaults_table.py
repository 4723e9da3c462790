"""One table of the registered defaults: a row for each environment, with its arms and random play."""

from collections.abc import Sequence
from statistics import fmean

from benchmarks.entities.registered import load
from benchmarks.entities.runs import Run
from benchmarks.entities.table import newest
from benchmarks.table import spread
from marless.reports.text import markdown_table

ARMS = ("random", "today", "new", "tuned")
_HEADER = ("environment", "seeds", *ARMS, "better", "share of tuned")


def text(name: str, runs: Sequence[Run]) -> str:
    """Return the table and the bars' counts. An environment counts if both arms have as many seeds."""
    rows, better, worse, judged, near, tuned_ones = [], 0, 0, 0, 0, 0
    for study in load(name).lists:
        of_list = [run for run in runs if run.study == study.name]
        by_arm = {arm: newest([run for run in of_list if run.arm == arm]).values() for arm in ARMS}
        random, today, new, tuned = ([run.best for run in by_arm[arm] if run.best is not None] for arm in ARMS)
        is_judged = bool(today) and len(today) == len(new)
        judged += is_judged
        better += is_judged and fmean(new) > fmean(today)
        worse += is_judged and max(new) < min(today)
        label = ("yes" if fmean(new) > fmean(today) else "no") if is_judged else ""
        share = _share(random, new, tuned)
        near, tuned_ones = near + (share is not None and share >= 0.9), tuned_ones + (share is not None)
        shown = (f"{fmean(best):.2f}, {spread(best, '.2f')}" if best else "" for best in (today, new, tuned))
        first = f"{fmean(random):.2f}" if random else ""
        label_of_share = "" if share is None else f"{share:.2f}"
        rows.append((study.name.removeprefix("defaults, "), str(len(new)), first, *shown, label, label_of_share))
    count = f"`new` is better in {better} of {judged}, and each seed is below each of `today` in {worse}."
    return f"{markdown_table(_HEADER, rows)}\n\n{count} It reaches 0.9 of `tuned` in {near} of {tuned_ones}."


def _share(random: Sequence[float], new: Sequence[float], tuned: Sequence[float]) -> float | None:
    """Return how far `new` comes on the way from random play to the tuned return. None if one is missing or equal."""
    if not (random and new and tuned) or fmean(tuned) <= fmean(random):
        return None
    return (fmean(new) - fmean(random)) / (fmean(tuned) - fmean(random))
