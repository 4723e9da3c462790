"""The progress of a long command: the last line of a terminal, or a line now and then in a pipe."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from marless import output
from marless.output import ERROR, note

# A pipe gets the first line after so many seconds, as short commands need none, and then one in so many.
FIRST_S, EVERY_S = 2.0, 10.0


class ProgressLines:
    """Writes to standard error."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._due = clock, clock() + FIRST_S

    def show(self, text: str) -> None:
        """Show the progress. Texts that come too fast for a pipe are left out."""
        if ERROR.isatty():
            output.progress(text)
        elif (now := self._clock()) >= self._due:
            self._due = now + EVERY_S
            note(text)


@contextmanager
def progress_lines() -> Iterator[Callable[[str], None]]:
    """Give a function that shows texts while a command works. The line of a terminal is cleared afterwards."""
    try:
        yield ProgressLines().show
    finally:
        output.progress("")
