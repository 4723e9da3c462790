"""``python -m benchmarks [NAME ...] [--quick] [--out FILE]``: measures and prints markdown tables.

Without names it measures every section of the one table. Other sections take minutes, have separate tables and run only
when they are named. They are `scale`, `sizes`, `pool`, `neighbours`, `halving`, `remote`, `pipeline`, `resources`,
`language`, `tenants`, `service`, `engines`, `gpu` and `adapters`.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import engines, scale, sizes
from benchmarks.adapters import table as adapters
from benchmarks.gpu import measure as gpu
from benchmarks.language import measure as language
from benchmarks.pipeline import measure as pipeline
from benchmarks.pool import halving_savings, neighbours, remote
from benchmarks.pool.rows import rows as pool_rows
from benchmarks.resources import measure as resources
from benchmarks.sections import FULL, QUICK, Effort, sections
from benchmarks.table import Row, markdown
from benchmarks.tenants import measure as tenants
from marless.functions.errors import BadRequest
from marless.reports.provenance import written_by

SIZES = "sizes"


def main() -> None:
    """Measures one thing at a time. Progress goes to standard error."""
    known = [*sections(), *own_tables(FULL, None)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="about two minutes instead of ten, with more noise")
    parser.add_argument(
        "--out", type=Path, help=f"also write the tables to this file, and beside it the picture of {SIZES}"
    )
    args = parser.parse_args()
    if unknown := set(args.names) - set(known):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    effort = QUICK if args.quick else FULL
    chosen = [name for name in sections() if not args.names or name in args.names]
    tables = [rows_of(chosen, effort, began)] if chosen else []
    for name, measure in own_tables(effort, args.out).items():
        if name in args.names:
            note(name, began)
            tables.append(measure())
    text = "\n\n".join([*tables, f"{machine()}; measured in {time.monotonic() - began:.0f} s. {written_by()}\n"])
    print(text, end="")
    if args.out:
        args.out.write_text(text, encoding="utf-8")


def rows_of(names: Sequence[str], effort: Effort, began: float) -> str:
    """The table of the sections with these names."""
    rows: list[Row] = []
    for name in names:
        note(name, began)
        rows += sections()[name](effort)
    return markdown(rows)


def own_tables(effort: Effort, out: Path | None) -> dict[str, Callable[[], str]]:
    """Return the tables that are measured only when they are named, in their order."""
    return {
        "scale": lambda: markdown(scale.rows(effort.repetitions)),
        "pool": lambda: markdown(pool_rows()),
        "neighbours": neighbours.table,
        "halving": lambda: markdown(halving_savings.rows()),
        "pipeline": lambda: pipeline.table(effort.repetitions, is_record=effort is FULL),
        "resources": lambda: resources.table(resources.FULL if effort is FULL else resources.QUICK),
        "language": lambda: language.table(effort.repetitions, is_record=effort is FULL),
        "tenants": lambda: tenants.table(is_record=effort is FULL),
        "service": lambda: service_table(effort),
        "engines": lambda: engines.table(effort.repetitions),
        "gpu": lambda: gpu.table(effort.repetitions, is_record=effort is FULL),
        "adapters": lambda: adapters.table(effort.repetitions + 2, effort.seconds),
        "remote": lambda: markdown(remote.rows(effort.repetitions)),
        SIZES: lambda: table_of_sizes(out),
    }


def service_table(effort: Effort) -> str:
    """Return the table of a lab's server, which needs the package `marless-server`."""
    from benchmarks.service import measure as service

    return service.table(is_record=effort is FULL)


def table_of_sizes(out: Path | None) -> str:
    """Return the table of the networks' sizes. Draws the picture next to the file `out`."""
    found = sizes.measure()
    if out:
        sizes.draw(found, out.with_suffix(".png"))
    return sizes.table(found)


def note(name: str, began: float) -> None:
    """Print the section that is measured now."""
    print(f"{time.monotonic() - began:5.0f} s  {name}", file=sys.stderr, flush=True)


def machine() -> str:
    """The measured configuration and machine."""
    return (
        "Simple spread, three agents, MAPPO with separate networks. Medians with lowest and highest of (n) repetitions,"
        " ratios within each repetition. "
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    try:
        main()
    except BadRequest as error:
        print(error, file=sys.stderr)
        sys.exit(2)
