"""Ten seeds of the default run by kernels and by numpy, and of the plain loop.

It measures training seconds to a greedy return, and the returns of the final policies.

    python -m benchmarks.comparisons.ten_seeds docs/results/ten-seeds.csv

A seed's runs follow each other, on two workers and in one process. Seeds that the table has are not run again. The
plain loop stops its clock for evaluations. So an engine trains as often with evaluations and once without, to the same
weights. `seconds` belong to the run without evaluations. They count from the launch of its workers to the end of the
round that reached the return. `evaluated_seconds` belong to the run with evaluations. An empty cell is a return that
was not reached.
"""

import csv
import sys
from argparse import ArgumentParser
from pathlib import Path

from benchmarks.comparisons.equal_returns import ENGINES, difference, returns, write
from benchmarks.launch import ROOT, measured
from benchmarks.table import share, spread, typical
from benchmarks.training import MAPPO, UNEVALUATED, trained
from marless.reports.provenance import written_by

STEPS = 400_000
SEEDS = range(1, 11)
TARGET = -36.0
COLUMNS = (
    "seed", "plain_seconds",
    *(f"{engine}_{what}" for engine in ENGINES for what in ("seconds", "evaluated_seconds", "return", "weights")),
)  # fmt: skip


def main() -> None:
    """The command line."""
    parser = ArgumentParser(prog="python -m benchmarks.comparisons.ten_seeds")
    parser.add_argument("table", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    options = parser.parse_args()
    rows = _read(options.table)
    for seed in options.seeds:
        if str(seed) not in {row["seed"] for row in rows}:
            rows.append(_row(seed))
            write(options.table, COLUMNS, rows)
    print(*summary(rows), written_by(), sep="\n")


def _row(seed: int) -> dict[str, str]:
    plain = measured("baseline.torch_form", "--seed", seed, "--steps", STEPS, "--json")["seconds_to"][f"{TARGET:g}"]
    row = {"seed": str(seed), "plain_seconds": _cell(plain)}
    for engine in ENGINES:
        settings = (MAPPO, f"seed={seed}", f"stop.env_steps={STEPS}", f"algorithm.engine={engine}")
        evaluated = trained(2, *settings, "evaluation.every=10", "evaluation.episodes=320")
        alone = trained(2, *settings, *UNEVALUATED)
        weights = evaluated.summary["weights_sha256"]
        if alone.summary["weights_sha256"] != weights:
            raise SystemExit(f"seed {seed}, {engine}: evaluations changed the weights, so the times are of two runs")
        round_ = evaluated.round_of(TARGET)
        row[f"{engine}_seconds"] = _cell(alone.seconds_after(round_))
        row[f"{engine}_evaluated_seconds"] = _cell(evaluated.seconds_after(round_))
        row[f"{engine}_return"] = f"{evaluated.summary['final_return']['mean']:.3f}"
        row[f"{engine}_weights"] = weights[:16]
    print(row, file=sys.stderr, flush=True)
    return row


def lines() -> list[str]:
    """Return the stored table in lines of text."""
    return summary(_read(ROOT / "docs" / "results" / "ten-seeds.csv"))


def summary(rows: list[dict[str, str]]) -> list[str]:
    """Return the rows in lines of text: median shares of the baseline's seconds, and the returns' difference.

    A seed that does not reach the return counts as the slowest.
    """
    columns = {"baseline": "plain_seconds", **{engine: f"{engine}_seconds" for engine in ENGINES}}
    seconds = {name: [_seconds(row[column]) for row in rows] for name, column in columns.items()}
    reached = [
        f"{name}: {TARGET:g} reached in {sum(value is not None for value in values)} of {len(rows)} seeds"
        for name, values in seconds.items()
    ]
    for index, engine in enumerate(ENGINES, start=1):
        shares = [share(*pair) for pair in zip(seconds[engine], seconds["baseline"], strict=True)]
        reached[index] += f", in {typical(shares, '.2f')} of the baseline's seconds, {spread(shares, '.2f')}"
    return [*reached, *returns(rows), difference(rows)]


def _seconds(cell: str) -> float | None:
    return float(cell) if cell else None


def _cell(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"


def _read(table: Path) -> list[dict[str, str]]:
    if not table.exists():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if tuple(rows.fieldnames or ()) != COLUMNS:
            raise SystemExit(f"{table} has other columns than {', '.join(COLUMNS)}; name a new file, or delete it")
        return [dict(row) for row in rows]


if __name__ == "__main__":
    main()
