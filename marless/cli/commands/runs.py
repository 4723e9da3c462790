"""marless runs: lists all runs, oldest first."""

import shutil
from argparse import ArgumentParser, Namespace

from marless.cli import arguments as common
from marless.comparison.run_selection import folders_of
from marless.output import OUTPUT, say, say_json, say_text
from marless.program import program_name
from marless.reports.text import money, plus_minus, seconds, table
from marless.runs import folder as folders
from marless.runs.listing import Row, rows

_HEADER = ("run", "status", "rounds", "steps", "final return", "seconds", "bill", "begun (UTC)")
# What a narrow terminal goes without, the first first.
_SPARED = ("begun (UTC)", "seconds", "steps", "bill", "rounds")


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "runs", nargs="*", metavar="RUN_OR_STUDY", help="runs, studies or ablations (default: all runs under runs/)"
    )
    common.json(parser)


def run(options: Namespace) -> int:
    """Prints a row for every run, with the reason for runs that cannot be read."""
    table_rows = rows(folders_of(options.runs) if options.runs else folders.all_runs())
    if options.json:
        for row in table_rows:
            say_json(row)
    elif table_rows:
        say_text(_table_text([_cells(row) for row in table_rows]))
    else:
        say(f"no runs here; start one with: {program_name()} train")
    return 0


def _table_text(cells: list[tuple[str, ...]]) -> str:
    """The table; on a terminal with the columns for which there is room."""
    text, columns = table(_HEADER, cells), list(range(len(_HEADER)))
    width = shutil.get_terminal_size().columns
    for name in _SPARED if OUTPUT.isatty() else ():
        if max(map(len, text.splitlines())) <= width:
            break
        columns.remove(_HEADER.index(name))
        text = table([_HEADER[at] for at in columns], [[row[at] for at in columns] for row in cells])
    return text


def _cells(row: Row) -> tuple[str, ...]:
    if row.rounds is None or row.env_steps is None or row.train_seconds is None or row.dollars is None:
        return (row.run, row.status, "-", "-", "-", "-", "-", row.problem)
    final = plus_minus(row.final_return) if row.final_return else "-"
    took, start = seconds(row.train_seconds), row.created[:16].replace("T", " ")
    return (row.run, row.status, f"{row.rounds:,}", f"{row.env_steps:,}", final, took, money(row.dollars), start)
