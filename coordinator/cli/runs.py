"""marless runs: all runs, the oldest first."""

from argparse import ArgumentParser, Namespace

from coordinator import budget
from coordinator.cli import folder as folders
from coordinator.cli import summary
from coordinator.cli.errors import UserError
from coordinator.cli.folder import RunFolder
from coordinator.cli.stored import look, standing
from coordinator.cli.text import money, plus_minus, seconds, table
from coordinator.config import ConfigError
from coordinator.loop import Unresumable
from functions.contract import StorageFault

_HEADER = ("run", "status", "rounds", "steps", "final return", "seconds", "bill", "begun (UTC)")


def arguments(parser: ArgumentParser) -> None:
    """None."""


def run(options: Namespace) -> int:
    found = folders.everything()
    if not found:
        print("there are no runs here; begin one with: marless train")
        return 0
    print(table(_HEADER, [_row(folder) for folder in found]))
    return 0


def _row(folder: RunFolder) -> tuple[str, ...]:
    """From the summary where the run has ended, else from the ledger."""
    created = folder.identity().created[:16].replace("T", " ")
    figures = summary.read(folder)
    if figures is not None and figures.status == "finished" and not folder.driven():
        final = plus_minus(figures.final_return) if figures.final_return else "-"
        steps, spent = f"{figures.env_steps:,}", money(figures.dollars.total)
        return (
            folder.name,
            "finished",
            f"{figures.rounds:,}",
            steps,
            final,
            seconds(figures.train_seconds),
            spent,
            created,
        )
    try:
        with look(folder) as found:
            state = found.state
            spent = money(float(budget.dollars(found.plan, state.meter)))
            steps, took = f"{state.env_steps:,}", seconds(state.seconds)
            return (folder.name, standing(folder, state), f"{state.round:,}", steps, "-", took, spent, created)
    except (UserError, ConfigError, Unresumable, StorageFault):
        return (folder.name, "unreadable", "-", "-", "-", "-", "-", created)
