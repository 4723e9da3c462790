"""Ends the work of an invocation that takes too long, in the process that goes on."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Seconds between repeated interruptions of a task that catches them.
_AGAIN_S = 0.5


class AttemptTimedOut(Exception):
    """The attempt took longer than its request allows; Lambda's own time-out, set at deployment, may be longer."""


class _OutOfTime(BaseException):
    """Raised by the alarm; not an `Exception`, so that a task's error handlers do not catch it."""


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
