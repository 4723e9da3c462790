"""Ends an invocation's work that takes too long, while the process continues."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Seconds between repeated interruptions of a task that catches them.
_AGAIN_S = 0.5


class AttemptTimedOut(Exception):
    """The attempt took longer than its request allows. Lambda's time-out, set at deployment, may be longer."""


class _OutOfTime(BaseException):
    """Raised by the alarm. It is no `Exception`, so a task's error handlers miss it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises `AttemptTimedOut` in the main thread, where Lambda calls handlers, when `seconds` have passed.

    A task that catches the exception is interrupted again every `_AGAIN_S`.
    """

    is_armed = False

    def stop(number: int, frame: FrameType | None) -> None:
        if is_armed:
            raise _OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        is_armed = True
        yield
        is_armed = False
    except _OutOfTime:
        is_armed = False
        raise AttemptTimedOut(f"no answer within {seconds:g} s") from None
    finally:
        is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
