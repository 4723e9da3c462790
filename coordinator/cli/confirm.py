"""Asking before something is made that costs money, or removed that cannot be brought back."""

import sys

from coordinator.errors import UserError


def confirm(question: str, yes: bool) -> None:
    """Returns when the user agrees; raises `UserError` otherwise, and where there is nobody to ask."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError("nobody is there to ask; agree with --yes")
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise UserError("nothing was done")
