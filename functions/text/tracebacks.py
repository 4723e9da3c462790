"""Where the whole traceback of an error stands whose message is one line: on standard error, which is a worker's log,
the terminal of a run in this process, or the function's log on Lambda."""

import sys
import textwrap
import traceback
from contextlib import suppress

from marless.functions.text.redaction import redact
from marless.functions.text.terminal_text import visible_text


def show_traceback(error: BaseException) -> None:
    """Writes the traceback, with those of its causes, without secrets and indented, so that no line of a message passes
    for one of ours; raises nothing."""
    with suppress(Exception):  # a full disk; code of a task may have closed the stream, or replaced it
        text = visible_text(redact("".join(traceback.format_exception(error))))
        sys.stderr.write(textwrap.indent(text, "  "))
