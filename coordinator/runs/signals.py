"""Ctrl-C and SIGTERM: they end a command at once, but for a run, which the first asks to leave in order."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

_HEARD = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """The user wants an end at once; `code` is the exit code that says which signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


@contextmanager
def heard(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Gives both signals to `handler`, also where a shell started the process to ignore them; in a thread, nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.signal(number, handler)) for number in _HEARD]
    try:
        yield
    finally:
        for number, earlier in before:
            signal.signal(number, earlier)


def end(number: int, frame: FrameType | None) -> None:
    """The handler of commands that have nothing to bring to an end; what is open is closed on the way out."""
    raise Interrupted(number)


class Signals:
    """While it is entered, the first signal is noted (`received`) and the second raises `Interrupted`."""

    def __init__(self) -> None:
        self.received = 0
        self._hearing = heard(self._hear)

    @property
    def code(self) -> int:
        """The exit code that says which signal came."""
        return 128 + self.received

    def __enter__(self) -> Self:
        self._hearing.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._hearing.__exit__(kind, error, at)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise Interrupted(number)
        self.received = number
