"""marless bill: prints what a run has cost so far, line by line, and its calls of resources."""

from argparse import ArgumentParser, Namespace
from decimal import Decimal

import msgspec

from marless.cli import arguments as common
from marless.cloud.remote_runs import find_run
from marless.coordinator.core import budget
from marless.coordinator.errors import FINISHED
from marless.coordinator.pricing.bill import Bill, Line
from marless.output import note, say, say_json, say_text
from marless.reports import call_table
from marless.reports.journal import read as read_lines
from marless.reports.text import money, table
from marless.runs.folder import METRICS
from marless.runs.stored_run import look
from marless.runs.summary import earlier

EXAMPLES = """examples:
  marless bill                   the latest run, also while it trains
  marless bill my_run --json     every digit, as in bill.json"""

_LONGEST_NAME = 18


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.run(parser)
    common.elsewhere(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Prints the bill of the run's last commit, and the table of its actions if it has resources."""
    folder = find_run(options)
    with look(folder) as stored_run:
        meter = stored_run.state.meter
        bill = budget.bill_of(stored_run.plan, meter)
    totals = call_table.totals(meter, bill)
    if options.json:
        say_json({"run": folder.name, "bill": msgspec.to_builtins(bill), "actions": msgspec.to_builtins(totals)})
        return FINISHED
    say_text(table(("line", "quantity", "dollars", "share"), _rows(bill)))
    if totals:
        say("")
        rows = call_table.rows(totals, read_lines(folder.path / METRICS))
        say_text(table(call_table.HEADER, [(_shortened(name), *cells) for name, *cells in rows]))
        note(call_table.NOTE)
    note(bill.note)
    if (results := earlier(folder)) and (busy_text := results.machine.busy_text):
        note(busy_text)
    return FINISHED


def _rows(bill: Bill) -> list[tuple[str, ...]]:
    """The lines that are not zero, the largest first, and the total."""
    lines = sorted((line for line in bill.lines if line.dollars), key=lambda line: -line.dollars)
    rows = [
        (line.name, _quantity(line), money(float(line.dollars)), _share(line.dollars, bill.total)) for line in lines
    ]
    return [*rows, ("total", "", money(float(bill.total)), "")]


def _shortened(name: str) -> str:
    """A name with which the table fits into 80 columns."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _quantity(line: Line) -> str:
    number = f"{line.quantity:,}" if line.quantity == line.quantity.to_integral() else f"{float(line.quantity):,.4g}"
    return f"{number} {line.unit}"


def _share(dollars: Decimal, total: Decimal) -> str:
    return f"{100 * float(dollars / total):.1f} %"
