"""marless runs: lists all runs, oldest first."""

from argparse import ArgumentParser, Namespace
from typing import Any

import msgspec

from coordinator.cli import arguments as common
from coordinator.config.schema import ConfigError
from coordinator.core import budget
from coordinator.drive.ledger_items import Unresumable
from coordinator.errors import UserError, one_line
from coordinator.output import say, say_json, say_text
from coordinator.reports import statistics
from coordinator.reports.statistics import FinalReturn
from coordinator.reports.text import money, plus_minus, seconds, table
from coordinator.runs import folder as folders
from coordinator.runs.folder import RunFolder
from coordinator.runs.stored import look
from functions.contract import StorageFault

_HEADER = ("run", "status", "rounds", "steps", "final return", "seconds", "bill", "begun (UTC)")


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run's progress. For a run that cannot be read, only `problem` is set and says why."""

    run: str
    folder: str
    status: str
    rounds: int | None = None
    env_steps: int | None = None
    final_return: FinalReturn | None = None
    train_seconds: float | None = None
    dollars: float | None = None
    created: str = ""
    problem: str = ""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.json(parser)


def run(options: Namespace) -> int:
    """Prints a row for every run, with the reason for runs that cannot be read."""
    rows = [_row(folder) for folder in folders.all_runs()]
    if options.json:
        for row in rows:
            say_json(row)
    elif rows:
        say_text(table(_HEADER, [_cells(row) for row in rows]))
    else:
        say("no runs here; start one with: marless train")
    return 0


def _row(folder: RunFolder) -> Row:
    """From the ledger: summary.json may be older than a resume."""
    known: dict[str, Any] = {"run": folder.name, "folder": str(folder.path)}
    try:
        with look(folder) as found:
            state = found.state
            return Row(
                **known,
                status=found.standing,
                rounds=state.round,
                env_steps=state.env_steps,
                final_return=statistics.summary(state.final) if state.final else None,
                train_seconds=state.seconds,
                dollars=float(budget.dollars(found.plan, state.meter)),
                created=found.identity.created,
            )
    except (UserError, ConfigError, Unresumable, StorageFault) as error:
        return Row(**known, status="unreadable", problem=one_line(error))


def _cells(row: Row) -> tuple[str, ...]:
    if row.rounds is None or row.env_steps is None or row.train_seconds is None or row.dollars is None:
        return (row.run, row.status, "-", "-", "-", "-", "-", row.problem)
    final = plus_minus(row.final_return) if row.final_return else "-"
    took, begun = seconds(row.train_seconds), row.created[:16].replace("T", " ")
    return (row.run, row.status, f"{row.rounds:,}", f"{row.env_steps:,}", final, took, money(row.dollars), begun)
