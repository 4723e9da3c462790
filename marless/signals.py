"""Ctrl-C, SIGTERM and SIGHUP end a command at once; a run stops in order at the first signal and at once at the second.

SIGHUP says that the terminal has gone, and its kernel and shell may both say so: a second one says nothing new.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal ends the command at once; `code` is the exit code for that signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


def ended_by_signal(code: int) -> bool:
    """Whether this exit code is that of a command that a signal ended."""
    return code > 128


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Installs `handler` for the signals, even if the process was started ignoring them, but for a SIGHUP that `nohup`
    has it ignore; does nothing in a thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ignores_hangup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    signal_numbers = [number for number in _HANDLED if number != signal.SIGHUP or not ignores_hangup]
    before = [(number, signal.signal(number, handler)) for number in signal_numbers]
    try:
        yield
    finally:
        for number, earlier in before:
            signal.signal(number, earlier)


def end(number: int, frame: FrameType | None) -> None:
    """The handler of commands that need no orderly stop; open resources are closed while the exception propagates."""
    raise Interrupted(number)


class Signals:
    """Within the context the first signal is stored in `received` and the second raises `Interrupted`."""

    def __init__(self) -> None:
        self.received = 0
        self._context = handle_signals(self._receive)

    @property
    def code(self) -> int:
        """The exit code for the received signal."""
        return 128 + self.received

    def __enter__(self) -> Self:
        self._context.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._context.__exit__(kind, error, at)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received = number
        elif number != signal.SIGHUP:
            raise Interrupted(number)
