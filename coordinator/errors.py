"""Exit codes, and how a command ends: one line instead of a traceback."""

from dataclasses import dataclass

from functions.redaction import redact

# A command that a signal ended exits with 128 plus the signal's number, as in shells.
FINISHED, UNFINISHED, USER_ERROR, INTERNAL = 0, 1, 2, 70


class UserError(Exception):
    """The command cannot be carried out as given; the message is one line that says what to do."""


@dataclass(frozen=True)
class Ending:
    """How a command that drove a run ended.

    `code` is the exit code and `line` goes to standard error, '' when all went well. `kept` is False when the run never
    got far enough to leave a folder worth keeping.
    """

    code: int
    line: str
    kept: bool = True


def one_line(error: BaseException) -> str:
    """The error's text without line breaks and secrets."""
    return redact(" ".join(str(error).split()))
