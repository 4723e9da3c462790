"""marless runs list: list all runs, oldest first."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence

from marless.cli import arguments as common
from marless.cli.command_names import family_overview
from marless.comparison.run_selection import COLLECTIONS, PLACES, collection_of, folders_of
from marless.output import note, say, say_json, say_text
from marless.program import program_name
from marless.reports.text import counted, money, plus_minus, seconds, size, table
from marless.runs.run_store import RUNS
from marless.runs.upkeep.listing import RunRow, rows
from marless.runs.upkeep.removal import leftovers

EXAMPLES = f"""examples:
  marless runs list --sort return             the best run last
  marless runs list --task spread --status finished
  marless runs list lr --long                  the runs of a study, with all columns

other commands:
{family_overview("runs")}"""

_LONG = ("run", "status", "final return", "size", "rounds", "steps", "seconds", "bill", "begun (UTC)")
# Eighty columns hold them.
_SHORT = _LONG[:4]
_SORTS: dict[str, Callable[[RunRow], tuple[object, ...]]] = {
    "begun": lambda row: (row.created,),
    "name": lambda row: (row.run,),
    "return": lambda row: (row.final_return is not None, row.final_return.mean if row.final_return else 0.0),
    "size": lambda row: (row.bytes,),
    "bill": lambda row: (row.dollars or 0.0,),
}


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "runs", nargs="*", metavar="RUN_OR_STUDY", help="runs, studies or ablations (default: all runs under runs/)"
    )
    row_options(parser)


def row_options(parser: ArgumentParser) -> None:
    """Adds which rows a list shows, and how."""
    parser.add_argument("--long", action="store_true", help="all columns")
    parser.add_argument(
        "--status", metavar="STATUS", help="only runs with this status, such as finished or interrupted"
    )
    parser.add_argument("--task", metavar="TEXT", help="only runs with this text in the task's name")
    parser.add_argument(
        "--sort", choices=_SORTS, default="begun", help="column to sort by, the greatest last (default: %(default)s)"
    )
    common.json(parser)


def run(options: Namespace) -> int:
    """Prints a row for every run, with the reason for runs that cannot be read."""
    show(rows(folders_of(options.runs) if options.runs else RUNS.folders()), options)
    if not options.runs and not options.json:
        _note_others()
    return 0


def show(all_rows: Sequence[RunRow], options: Namespace) -> None:
    """Print those rows that the options ask for."""
    matching_rows = [
        row
        for row in all_rows
        if (not options.status or row.status == options.status) and (not options.task or options.task in row.task)
    ]
    matching_rows.sort(key=_SORTS[options.sort])
    if options.json:
        for row in matching_rows:
            say_json(row)
    elif matching_rows:
        columns = _LONG if options.long else _SHORT
        say_text(table(columns, [_cells(row, len(columns)) for row in matching_rows]))
    else:
        say("no such runs" if all_rows else f"no runs here; start one with: {program_name()} train")


def _note_others() -> None:
    names = [str(path) for parent in COLLECTIONS if parent.is_dir() for path in sorted(parent.iterdir())]
    if collections := [name for name in names if collection_of(name)]:
        note(f"and in {', '.join(collections)}; list those with: {program_name()} runs {collections[0]}")
    if left := [path.name for parent in PLACES for path in leftovers(parent)]:
        note(f"{counted(len(left), 'command')} cut short left files; delete them with: {program_name()} runs remove")


def _cells(row: RunRow, columns: int) -> tuple[str, ...]:
    if row.rounds is None or row.env_steps is None or row.train_seconds is None or row.dollars is None:
        return (row.run, row.status, *["-"] * (columns - 3), row.problem)
    final = plus_minus(row.final_return) if row.final_return else "-"
    took, start = seconds(row.train_seconds), row.created[:16].replace("T", " ")
    cells = (row.run, row.status, final, size(row.bytes), f"{row.rounds:,}", f"{row.env_steps:,}", took)
    return (*cells, money(row.dollars), start)[:columns]
