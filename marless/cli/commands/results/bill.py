"""marless status --bill: print the cost of a run, line by line, and its calls of resources."""

import msgspec

from marless.coordinator.core import budget
from marless.coordinator.errors import FINISHED
from marless.coordinator.pricing.bill import Bill, Line
from marless.output import note, say, say_json, say_text
from marless.reports import call_table
from marless.reports.journal import read as read_lines
from marless.reports.text import money, table
from marless.runs.folder import METRICS, RunFolder
from marless.runs.stored_run import look
from marless.runs.summary import earlier

_LONGEST_NAME = 18


def print_bill(folder: RunFolder, as_json: bool) -> int:
    """Print the bill of the run's last commit, and the table of its actions if it has resources."""
    with look(folder) as stored_run:
        meter = stored_run.state.meter
        bill = budget.bill_of(stored_run.plan, meter)
    totals = call_table.totals(meter, bill)
    if as_json:
        say_json({"run": folder.name, "bill": msgspec.to_builtins(bill), "actions": msgspec.to_builtins(totals)})
        return FINISHED
    say_text(table(("line", "quantity", "dollars", "share"), _rows(bill)))
    if totals:
        say("")
        rows = call_table.rows(totals, read_lines(folder.path / METRICS))
        # Longer names would make the table wider than 80 columns.
        names = [row[0] if len(row[0]) <= _LONGEST_NAME else f"{row[0][: _LONGEST_NAME - 1]}…" for row in rows]
        say_text(table(call_table.HEADER, [(name, *row[1:]) for name, row in zip(names, rows, strict=True)]))
        note(call_table.NOTE)
    note(bill.note)
    if (results := earlier(folder)) and (busy_text := results.machine.busy_text):
        note(busy_text)
    return FINISHED


def _rows(bill: Bill) -> list[tuple[str, ...]]:
    lines = sorted((line for line in bill.lines if line.dollars), key=lambda line: -line.dollars)
    rows = [
        (line.name, _quantity(line), money(float(line.dollars)), f"{100 * float(line.dollars / bill.total):.1f} %")
        for line in lines
    ]
    return [*rows, ("total", "", money(float(bill.total)), "")]


def _quantity(line: Line) -> str:
    number = f"{line.quantity:,}" if line.quantity == line.quantity.to_integral() else f"{float(line.quantity):,.4g}"
    return f"{number} {line.unit}"
