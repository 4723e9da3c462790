"""Retries with exponential back-off and jitter."""

import random
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

FIRST_S = 0.05
LONGEST_S = 5.0
ATTEMPTS = 8
SLOT_PAUSE_S = 1.0
"""The longest pause between attempts to find a free slot of a resource: who asks pays for its waiting."""

Result = TypeVar("Result")

# A separate generator: tasks may draw from, or seed, the interpreter's shared one.
_DRAWS = random.Random()


def pauses(longest_s: float = LONGEST_S) -> Iterator[float]:
    """Endless pauses in seconds, the n-th uniform between 0 and `FIRST_S` * 2**n, but at most `longest_s`.

    This is "full jitter" (AWS Architecture Blog, "Exponential Backoff And Jitter"): callers that were throttled
    together do not retry together.
    """
    return (_DRAWS.uniform(0.0, ceiling) for ceiling in ceilings(longest_s))


def ceilings(longest_s: float = LONGEST_S) -> Iterator[float]:
    """The most that each of `pauses` takes."""
    ceiling = FIRST_S
    while True:
        yield ceiling
        ceiling = min(longest_s, 2 * ceiling)


def few() -> Iterator[float]:
    """Pauses between `ATTEMPTS` attempts."""
    return islice(pauses(), ATTEMPTS - 1)


def until(deadline: float, longest_s: float = LONGEST_S) -> Iterator[float]:
    """Pauses of at most `longest_s` that end before `deadline`, seconds on the monotonic clock."""
    for pause in pauses(longest_s):
        if time.monotonic() + pause > deadline:
            return
        yield pause


def retry(
    action: Callable[[], Result],
    again: Callable[[Exception], bool],
    waits: Iterator[float],
    sleep: Callable[[float], object] = time.sleep,
) -> Result:
    """The result of `action`, retried while `again` accepts its exception and `waits` last."""
    while True:
        try:
            return action()
        except Exception as error:
            pause = next(waits, None) if again(error) else None
            if pause is None:
                raise
        sleep(pause)
