"""``make reproduce``: measure the numbers of README again, and compare them with the published intervals.

    make reproduce
    make reproduce ARGS=--plan
    make reproduce ARGS="--only returns/qmix"
    make reproduce ARGS="--only returns/qmix/1 'first run'"

The first prints the hours, and then measures all numbers. `--plan` only prints. `--only` picks numbers or cells. A cell
is the smallest piece of work, such as one seed. Ctrl-C stops, and the same command continues. Values are stored in
build/reproduce. The exit code is 1 if a new number is outside its interval.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.launch import ROOT, environment
from benchmarks.reproduce import singles
from benchmarks.reproduce.numbers import Cell, Published, Store, Table, Value
from benchmarks.reproduce.returns import Returns
from marless.infra.local.available_cores import cores
from marless.machine import this_machine
from marless.reports.provenance import commit, written_by
from marless.reports.statistics import mean
from marless.reports.text import markdown_table
from marless.signals import Interrupted, Signals

_HEADER = ("number", "published", "interval", "new", "cells", "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the table. Returns 1 for a number outside its interval, and 130 if it was stopped."""
    options = _arguments().parse_args(arguments)
    os.environ.update(environment())
    tables: Sequence[Table] = (
        singles.first_run(), singles.random_team(), singles.prices(), singles.rates(), Returns(),
    )  # fmt: skip
    store = Store(options.folder / "values.jsonl")
    chosen = [[cell for cell in table.cells() if _is_chosen(cell, options.only)] for table in tables]
    if not any(chosen):
        print(f"no cell is called {' or '.join(options.only)}; --plan lists all", file=sys.stderr)
        return 2
    stored = store.read()
    missing = [[cell for cell in cells if cell.name not in stored] for cells in chosen]
    if options.plan:
        print(*(f"{cell.name}  {cell.seconds:,.0f} s" for cells in chosen for cell in cells), sep="\n")
    print(_estimate(tables, missing, sum(map(len, chosen)), options.jobs), flush=True)
    if options.plan:
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        with Signals() as signals:
            for table, cells in zip(tables, missing, strict=True):
                _measure(table, cells, store, options, signals)
    except Interrupted as interrupted:
        return interrupted.code
    lines, outside = _compare(tables, {cell.name for cells in chosen for cell in cells}, store.read())
    machine = this_machine(0)
    where = (
        f"Measured on {machine.cores} cores, {machine.platform}, Python {machine.python}, at load {machine.load:.0f}."
    )
    text = "\n".join([*lines, "", f"{where} {written_by()}"])
    (options.folder / "report.md").write_text(f"{text}\n", encoding="utf-8")
    print(text)
    if signals.received:
        print("stopped; the same command continues", file=sys.stderr)
        return signals.code
    return int(outside)


def _measure(table: Table, cells: Sequence[Cell], store: Store, options: argparse.Namespace, signals: Signals) -> None:
    if not cells or signals.received:
        return

    def _on_values(cell: Cell, values: Mapping[str, float], seconds: float) -> None:
        store.put(Value(cell=cell.name, values=dict(values), seconds=round(seconds, 1), commit=commit()))
        print(f"{cell.name}: {', '.join(f'{value:.6g}' for value in values.values())}, {seconds:,.0f} s", flush=True)

    table.measure(cells, options.folder, options.jobs, signals, _on_values)


def _is_chosen(cell: Cell, patterns: Sequence[str]) -> bool:
    names = (cell.name, *cell.numbers)
    return not patterns or any(fnmatch(name, pattern) for name in names for pattern in patterns)


def _estimate(tables: Sequence[Table], missing: Sequence[Sequence[Cell]], cells: int, jobs: int) -> str:
    """Return the work that is left, with its hours by the seconds of the published records."""
    seconds = sum(
        sum(cell.seconds for cell in group) / (jobs if table.is_parallel else 1)
        for table, group in zip(tables, missing, strict=True)
    )
    unknown = sum(not cell.seconds for group in missing for cell in group)
    rest = f", and {unknown} cells whose seconds no record has" if unknown else ""
    count = sum(map(len, missing))
    return f"{count} of {cells} cells to measure: about {seconds / 3600:.2g} hours with {jobs} jobs{rest}"


def _compare(tables: Sequence[Table], names: set[str], stored: Mapping[str, Value]) -> tuple[list[str], bool]:
    """Return the table of the cells with these names, and whether a number is outside its interval."""
    rows = []
    for table in tables:
        for number, published in table.published().items():
            cells = [cell.name for cell in table.cells() if number in cell.numbers and cell.name in names]
            values = [stored[name].values[number] for name in cells if name in stored]
            if cells:
                rows.append(_row(number, published, values, len(cells)))
    return markdown_table(_HEADER, rows).splitlines(), any(row[-1] == "OUTSIDE" for row in rows)


def _row(number: str, published: Published, values: Sequence[float], cells: int) -> tuple[str, ...]:
    interval, measured = f"{published.low:.6g} to {published.high:.6g}", f"{len(values)} of {cells}"
    new = f"{mean(values):.6g}" if values else ""
    verdict = published.verdict(mean(values), len(values)) if values else "not measured"
    return number, f"{published.value:.6g}", interval, new, measured, verdict


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reproduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="cells or numbers (* fits all characters)"
    )
    parser.add_argument("--plan", action="store_true", help="list the cells and their seconds, and measure nothing")
    parser.add_argument("--jobs", type=int, default=cores(), metavar="N", help="runs at once (default: %(default)s)")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "reproduce", metavar="DIR", help="of the values and the runs"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
