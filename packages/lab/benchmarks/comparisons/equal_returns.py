"""Return whether kernels and numpy train policies of equal returns: pairs of one seed, two one-sided tests.

    marless study benchmarks/comparisons/engines.toml --out build/engines
    python -m benchmarks.comparisons.equal_returns docs/results/equal-returns.csv build/engines

With a study's folder the table is written from its finished runs. Without one it is read.
"""

import csv
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparisons.paired_difference import conclusion, interval
from benchmarks.launch import ROOT
from marless.reports.statistics import ci95, iqm, mean
from marless.runs import summary
from marless.runs.folder import RunFolder

ENGINES = ("native", "numpy")
COLUMNS = ("seed", *(f"{engine}_{what}" for engine in ENGINES for what in ("return", "weights")))
# Two engines are equal where the 90 % interval of the difference of their returns is within this.
MARGIN = 0.5

Row = dict[str, str]


def main() -> None:
    """The command line."""
    parser = ArgumentParser(prog="python -m benchmarks.comparisons.equal_returns")
    parser.add_argument("table", type=Path)
    parser.add_argument("study", type=Path, nargs="?")
    options = parser.parse_args()
    if options.study:
        write(options.table, COLUMNS, rows_of(options.study))
    print(*lines(options.table), sep="\n")


def lines(table: Path = ROOT / "docs" / "results" / "equal-returns.csv") -> list[str]:
    """Return the returns in a table and their difference, in lines of text."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = [dict(row) for row in csv.DictReader(file)]
    return [*returns(rows), difference(rows)]


def rows_of(study: Path) -> list[Row]:
    """Return a row of each seed, in order. Raises `SystemExit` unless all runs of every seed have finished."""
    rows: dict[int, Row] = {}
    for folder in sorted((study / "runs").iterdir()):
        config, results = RunFolder(folder).config(), summary.read(RunFolder(folder))
        row = rows.setdefault(config.seed, {"seed": str(config.seed)})
        if results is None or results.status != "finished" or results.final_return is None:
            continue
        engine = config.algorithm.engine
        row[f"{engine}_return"] = f"{results.final_return.mean:.3f}"
        row[f"{engine}_weights"] = str(results.weights_sha256)[:16]
    if unfinished := sorted(seed for seed, row in rows.items() if row.keys() != {*COLUMNS}):
        raise SystemExit(f"{study}: the runs of these seeds have not all finished: {', '.join(map(str, unfinished))}")
    return [row for _, row in sorted(rows.items())]


def returns(rows: Sequence[Row]) -> list[str]:
    """The mean return with each engine with its 95 % interval, and the interquartile mean, in lines of text."""
    lines = []
    for engine in ENGINES:
        values = _returns(rows, engine)
        low, high = ci95(values)
        lines.append(
            f"{engine}: final return {mean(values):.2f} ({low:.2f} to {high:.2f}), interquartile mean"
            f" {iqm(values):.2f}, {len(values)} seeds"
        )
    return lines


def difference(rows: Sequence[Row]) -> str:
    """Return the difference of the returns of one seed, and whether the engines are equal, as text."""
    native, numpy = (_returns(rows, engine) for engine in ENGINES)
    return (
        f"native less numpy: {interval(native, numpy, 2)}, 90 % interval. With a margin of {MARGIN} the seeds show:"
        f" {conclusion(native, numpy, MARGIN)}"
    )


def _returns(rows: Sequence[Row], engine: str) -> list[float]:
    return [float(row[f"{engine}_return"]) for row in rows]


def write(table: Path, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Writes the rows as CSV."""
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
