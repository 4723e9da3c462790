"""The whole traceback of an error with a message of one line, on standard error. This is a worker's log, the terminal
of a run in this process, or the function's log on Lambda."""

import sys
import textwrap
import traceback
from contextlib import suppress

from marless.functions.text.redaction import redact
from marless.functions.text.terminal_text import visible_text


def show_traceback(error: BaseException) -> None:
    """Write the traceback with its causes' tracebacks, without secrets. It is indented, so that a message's line looks
    unlike our lines. It never raises."""
    with suppress(Exception):  # a full disk, or a task's code that closed or replaced the stream
        text = visible_text(redact("".join(traceback.format_exception(error))))
        sys.stderr.write(textwrap.indent(text, "  "))
