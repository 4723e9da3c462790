"""What the command line says instead of a traceback: one line and an exit code."""

# Ended by a signal: 128 and its number, as shells have it.
FINISHED, UNFINISHED, USER_ERROR, INTERNAL = 0, 1, 2, 70


class UserError(Exception):
    """The command cannot be carried out as it was given; the message is one line that says what to do."""


def one_line(error: BaseException) -> str:
    """The error's text without line breaks."""
    return " ".join(str(error).split())
