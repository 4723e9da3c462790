"""What commands say on the terminal: questions before they act, and how they ended."""

import sys

from coordinator.errors import Ending, UserError


def confirm(question: str, yes: bool) -> None:
    """Returns when the user agrees or `yes` is set; raises `UserError` otherwise, and without a terminal to ask on."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError("no terminal to confirm on; pass --yes")
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise UserError("cancelled; nothing was changed")


def report_ending(ending: Ending) -> int:
    """Prints the ending's line, if any, on standard error and returns the exit code."""
    if ending.line:
        print(f"marless: {' '.join(ending.line.split())}", file=sys.stderr)
    return ending.code
