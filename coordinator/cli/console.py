"""What commands say on the terminal: questions before they act, and how they ended."""

from coordinator.errors import Ending, UserError
from coordinator.output import ask, note


def confirm(question: str, yes: bool) -> None:
    """Returns when the user agrees or `yes` is set; raises `UserError` otherwise, and without a terminal to ask on."""
    if yes:
        return
    try:
        answer = ask(f"{question} [y/N] ")
    except LookupError:
        raise UserError("no terminal to confirm on; pass --yes") from None
    if answer.lower() not in ("y", "yes"):
        raise UserError("cancelled; nothing was changed")


def report_ending(ending: Ending) -> int:
    """Prints the ending's line, if any, on standard error and returns the exit code."""
    if ending.line:
        note(f"marless: {' '.join(ending.line.split())}")
    return ending.code
