"""The cost of a lag, as a table: the differences to the same seeds without a lag.

    python -m benchmarks.lag.differences

The runs had no margin in advance, so no row can show that a lag is free.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.comparisons.paired_difference import conclusion, interval
from benchmarks.launch import ROOT
from marless.reports.text import markdown_table

HEADER = ("task", "lag and correction", "difference (90 % interval)", "seeds that end lower", "seeds show")
BASE, ARMS = "lag-0", ("lag-1-vtrace", "lag-1-decoupled")
MARGIN = None


@dataclass(frozen=True)
class Study:
    """The table of a study, its name on the page, and the column and digits of its returns."""

    file: str
    task: str
    column: str
    digits: int


STUDIES = (
    Study("spread", "`simple_spread`", "final_return", 2),
    Study("foraging", "foraging", "final_return", 3),
    Study("overcooked", "kitchen", "training_return", 1),
)


def table(studies: Sequence[Study] = STUDIES, arms: Sequence[str] = ARMS) -> str:
    """Return the table as markdown."""
    return markdown_table(HEADER, [_cells(study, arm) for study in studies for arm in arms], aligned=False)


def _cells(study: Study, arm: str) -> tuple[str, ...]:
    with (ROOT / "docs" / "results" / "lag" / f"{study.file}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    base, own = ({row["seed"]: float(row[study.column]) for row in rows if row["arm"] == name} for name in (BASE, arm))
    pairs = [own[seed] for seed in base], [*base.values()]
    lower = sum(one < other for one, other in zip(*pairs, strict=True))
    shown = conclusion(*pairs, MARGIN)
    return study.task, arm, interval(*pairs, study.digits), f"{lower} of {len(base)}", shown


if __name__ == "__main__":
    print(table())
