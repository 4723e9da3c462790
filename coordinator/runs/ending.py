"""How a command that drove a run ended."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Ending:
    """The exit code, a line for standard error ('' when all went well), and whether the run came so far that there is
    something to keep."""

    code: int
    line: str
    kept: bool = True


def conclude(ending: Ending) -> int:
    """Says the line; returns the exit code."""
    if ending.line:
        print(f"marless: {' '.join(ending.line.split())}", file=sys.stderr)
    return ending.code
