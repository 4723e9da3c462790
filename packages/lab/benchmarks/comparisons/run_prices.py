"""Measure the price of MAPPO's default run in four ways.

Two use functions, with a learner per slot or with ``placement.rule=auto``. Two use a rented machine, started for this
run alone or busy all the time.

    python -m benchmarks.comparisons.run_prices docs/results/run-prices.csv

A rented machine is billed by its time, so its prices follow from the seconds of the run on this machine with two
workers. The weights are the same in all ways. Rows of seeds that the table already has are not measured again.
"""

import csv
import sys
import time
from argparse import ArgumentParser
from pathlib import Path

from benchmarks.comparisons.equal_returns import write
from benchmarks.training import MAPPO, trained
from marless.coordinator.pricing.prices import load_prices
from marless.estimation.rented_machine import rented_machine
from marless.reports.provenance import commit, written_by
from marless.reports.statistics import mean

WORKERS, REGION = 2, "us-east-1"
WAYS = {
    "balanced": "functions, a learner per slot",
    "auto": "functions, `placement.rule=auto`",
    "rented": "one rented machine, started for this run",
    "busy": "one rented machine, busy all the time",
}
COLUMNS = ("seed", "commit", "seconds", *WAYS, "weights")


def main() -> None:
    """Run the command line."""
    parser = ArgumentParser(prog="python -m benchmarks.comparisons.run_prices")
    parser.add_argument("table", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(101, 106)))
    options = parser.parse_args()
    rows = read(options.table)
    for seed in options.seeds:
        if str(seed) not in {row["seed"] for row in rows}:
            rows.append(priced(seed))
            write(options.table, COLUMNS, rows)
    print(*table_lines(rows), written_by(), sep="\n")


def priced(seed: int) -> dict[str, str]:
    """Train one seed in all ways, and return its row."""
    began = time.monotonic()
    default = trained(WORKERS, MAPPO, f"seed={seed}", "placement.rule=balanced")
    seconds = time.monotonic() - began
    by_price = trained(WORKERS, MAPPO, f"seed={seed}", "placement.rule=auto")
    weights = {run.summary["weights_sha256"] for run in (default, by_price)}
    if len(weights) > 1:
        raise SystemExit(f"seed {seed}: the placements trained different weights, so their prices are of two runs")
    machine = rented_machine(load_prices(REGION), WORKERS)
    dollars = (
        default.summary["dollars"]["total"],
        by_price.summary["dollars"]["total"],
        machine.dollars(seconds),
        machine.busy_dollars(seconds),
    )
    prices = {way: f"{value:.6f}" for way, value in zip(WAYS, dollars, strict=True)}
    origin = {"seed": str(seed), "commit": commit() or "", "seconds": f"{seconds:.2f}"}
    cells = {**origin, **prices, "weights": weights.pop()}
    print(cells, file=sys.stderr, flush=True)
    return cells


def table_lines(rows: list[dict[str, str]]) -> list[str]:
    """Return the table in markdown: for each way, the mean of its dollars and their lowest and highest value."""
    lines = ["| MAPPO's default run | dollars | lowest to highest |", "|---|---|---|"]
    for way, label in WAYS.items():
        values = [float(row[way]) for row in rows]
        lines.append(f"| {label} | ${mean(values):.2g} | ${min(values):.2g} to ${max(values):.2g} |")
    return lines


def read(table: Path) -> list[dict[str, str]]:
    """Return the stored rows, or an empty list."""
    if not table.is_file():
        return []
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
