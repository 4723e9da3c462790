"""Ctrl-C, SIGTERM and SIGHUP end a command at once. A run stops in order at the first signal and at once at the second.

Signals of batch systems before the end of a job's time have the same effect: SIGUSR1, SIGUSR2 and SIGXCPU. SIGHUP says
that the terminal has gone. These four may come several times, and a later one says nothing new.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

_BATCH = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, *_BATCH)
_Handler = Callable[[int, FrameType | None], None]
# In place of a signal's number, where the program itself stops a run.
_OWN = 128
# The handlers that are installed here, the present one last.
_handlers: list[_Handler] = []


class Interrupted(BaseException):
    """A signal ends the command at once. `code` is the exit code for that signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


def ended_by_signal(code: int) -> bool:
    """Return whether this is the exit code of a command that a signal ended."""
    return 128 < code < 128 + _OWN


@contextmanager
def handle_signals(handler: _Handler) -> Iterator[None]:
    """Installs `handler` for the signals. Does nothing in a thread.

    SIGINT and SIGTERM are handled even if the process was started ignoring them. A SIGHUP that `nohup` has it ignore
    stays ignored. If the user's program handles a signal of batch systems, its handler stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.signal(number, handler)) for number in _HANDLED if _is_free(number)]
    _handlers.append(handler)
    try:
        yield
    finally:
        _handlers.pop()
        for number, earlier in before:
            signal.signal(number, earlier)


def _is_free(number: int) -> bool:
    handler = signal.getsignal(number)
    if number in _BATCH:
        return handler == signal.SIG_DFL or handler in _handlers
    return number != signal.SIGHUP or handler != signal.SIG_IGN


def end(number: int, frame: FrameType | None) -> None:
    """Handle a signal in commands that may stop at once. The propagating exception closes open resources."""
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

    def stop(self) -> None:
        """Stop in order, without a signal."""
        self.received = self.received or _OWN

    def __enter__(self) -> Self:
        self._context.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._context.__exit__(kind, error, at)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received = number
        elif number in (signal.SIGINT, signal.SIGTERM):
            raise Interrupted(number)
