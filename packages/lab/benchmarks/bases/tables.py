"""The lines of the tables of arms on docs/results/bases.md, from the stored runs."""

import csv
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.launch import ROOT
from marless.reports.statistics import ci95, mean


class Table(NamedTuple):
    """A table of arms, the table with its control `all`, and the digits of its returns."""

    file: str
    control: str
    digits: int


TABLES = (
    Table("spread_6", "spread_6", 1),
    Table("spread_6_late", "spread_6", 1),
    Table("foraging", "foraging", 3),
    Table("smax_3s5z", "smax_3s5z", 2),
)


def lines() -> Iterator[str]:
    """Return a line for each arm: return, worst seed, difference to `all` by seed, state, and KB a round."""
    for table in TABLES:
        runs, controls = _runs(table.file), _runs(table.control)
        whole = mean([float(run["learner_numbers"]) for run in controls if run["arm"] == "none"])
        of_all = {run["seed"]: float(run["final_return"]) for run in controls if run["arm"] == "all"}
        for arm in dict.fromkeys(run["arm"] for run in runs):
            own = [run for run in runs if run["arm"] == arm]
            returns = [float(run["final_return"]) for run in own]
            differences = [float(run["final_return"]) - of_all[run["seed"]] for run in own]
            share = mean([float(run["learner_numbers"]) for run in own]) / whole
            kilobytes = mean([int(run["learner_bytes"]) + int(run["policy_bytes"]) for run in own]) / 1000
            against = "" if arm == "all" else _interval(differences, table.digits)
            cells = [arm, _interval(returns, table.digits), f"{min(returns):.{table.digits}f}", against]
            yield f"| {' | '.join([*cells, f'{share:.2f}', f'{kilobytes:,.0f}'])} |"


def _runs(name: str) -> list[dict[str, str]]:
    with (ROOT / "docs" / "results" / "bases" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _interval(values: Sequence[float], digits: int) -> str:
    return f"{mean(values):.{digits}f} ± {(ci95(values)[1] - mean(values)):.{digits}f}"
