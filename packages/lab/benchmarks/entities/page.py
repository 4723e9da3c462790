"""Pages of results with the tables of their stored records between two markers."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.entities import ceiling_table, defaults_table
from benchmarks.entities.registered import load
from benchmarks.entities.runs import Run
from benchmarks.entities.table import text
from benchmarks.launch import ROOT
from benchmarks.plan import table as plan_table
from benchmarks.plan.registered import load as load_plan
from benchmarks.plan.registered import read as read_plan
from benchmarks.records import json_lines

RESULTS = ROOT / "docs" / "results"
RECORD = RESULTS / "entities.jsonl"
_BEGIN, _END = "<!-- tables: written by `make docs` -->", "<!-- end of tables -->"


def lists_of(name: str, runs: Sequence[Run]) -> str:
    """Return the tables of each list."""
    return text(load(name), runs) if runs else "The arms are registered and have not run yet."


def page(name: str, tables_of: Callable[[str, Sequence[Run]], str] = lists_of) -> str:
    """Return the page of that name with the tables of its record."""
    return with_tables(name, tables_of(name, json_lines.read(RESULTS / f"{name}.jsonl", Run)))


def with_tables(name: str, tables: str) -> str:
    """Return the page of that name with other tables."""
    before, rest = (RESULTS / f"{name}.md").read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{tables}\n\n{_END}{rest.split(_END)[1]}"


def _plan() -> str:
    return with_tables("plan", plan_table.text(load_plan(), read_plan(RESULTS / "plan.jsonl")))


PAGES: dict[Path, Callable[[], str]] = {
    **{RESULTS / f"{name}.md": partial(page, name) for name in ("entities", "games", "roles", "teams")},
    RESULTS / "ceiling.md": partial(page, "ceiling", ceiling_table.text),
    RESULTS / "defaults.md": partial(page, "defaults", defaults_table.text),
    RESULTS / "plan.md": _plan,
}


def lines() -> list[str]:
    """Return the lines about the baseline's seeds that reach -36. An arm that misses takes infinite time."""
    runs = json_lines.read(RECORD, Run)
    seconds = {(run.arm, run.seed): (run.seconds_to["-36"], run.launch) for run in runs if run.study == "targets"}
    base = {seed: value for (arm, seed), (value, _) in seconds.items() if arm == "torch, index" and value}
    shares = []
    for arm in ("attention, shared, index", "shared, relation, tuned"):
        pairs = [(seconds[arm, seed], value) for seed, value in base.items()]
        for share in (1, 0):
            times = [math.inf if reached is None else reached + share * launch for (reached, launch), _ in pairs]
            shares.append(100 * fmean(time / value for time, (_, value) in zip(times, pairs, strict=True)))
    attention, attention_alone, relation, relation_alone = (f"{share:.0f} %" for share in shares)
    return [
        f"  Over the other {len(base)} seeds, attention takes {attention} of the baseline's seconds on average"
        f" ({attention_alone} without the start of",
        f"  the program). `relation` takes {relation} ({relation_alone}).",
    ]
