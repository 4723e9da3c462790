"""The outcome of several attempts at one call, and whether another attempt is made."""

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from marless.functions.resources.port import CallOutcome


def tries(attempts: Sequence[CallOutcome]) -> int:
    """Return how many of these count. An attempt does not if the resource asked to be left alone."""
    return sum(not attempt.pause_s for attempt in attempts)


def are_over(attempts: Sequence[CallOutcome], most: int, patience_s: float) -> bool:
    """Return True if the call ends: one attempt was answered, `most` have failed, or the resource asks for a longer
    pause than `patience_s`."""
    if pause_s := attempts[-1].pause_s:
        return pause_s > patience_s
    return not attempts[-1].error or tries(attempts) >= most


def after(attempts: Sequence[CallOutcome]) -> CallOutcome:
    """Merge the attempts of a call, one or more, into its outcome. All attempts before the last have failed."""
    last = attempts[-1]
    count = tries(attempts)
    tried = f" ({count} attempts)" if last.error and count > 1 else ""
    return replace(
        last,
        error=f"{last.error}{tried}",
        run_ms=sum(attempt.run_ms for attempt in attempts),
        attempts=sum(attempt.attempts for attempt in attempts),
        puts=sum(attempt.puts for attempt in attempts),
        gets=sum(attempt.gets for attempt in attempts),
    )


def unasked(fault: CallOutcome) -> CallOutcome:
    """Return the outcome of a call that is not asked, as another call of its task has shown that the
    resource is down."""
    return replace(fault, run_ms=0.0, attempts=0)


class CallBatch:
    """Calls that a task asks together, for hosts that wait themselves. No more of them are asked after one has shown
    that the resource is down."""

    def __init__(self) -> None:
        self._fault: CallOutcome | None = None
        self._answered_at = 0.0

    def outcome(self, ask: Callable[[], CallOutcome]) -> CallOutcome:
        """Return how a call ended, which `ask` asks."""
        if self._fault is not None:
            return unasked(self._fault)
        began = time.monotonic()
        outcome = ask()
        if not outcome.error:
            self._answered_at = time.monotonic()
        elif outcome.is_down and self._answered_at < began:
            self._fault = outcome
        return outcome

    def is_over(self) -> bool:
        """Return True after a fault, which ends all calls."""
        return self._fault is not None


class Attempts:
    """Makes attempts one after the other, for hosts that wait themselves. A resource that asks to be left alone is left
    alone by all of them."""

    def __init__(self) -> None:
        # For each resource that asked to be left alone, the end of that time by the monotonic clock, and its refusal.
        self._pauses: dict[str, tuple[float, CallOutcome]] = {}

    def outcome(
        self,
        name: str,
        most: int,
        patience_s: float,
        attempt: Callable[[Sequence[CallOutcome]], CallOutcome],
        wait: Callable[[float], object] = time.sleep,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> CallOutcome:
        """Return how a call ended. `attempt` makes one attempt, given the failed attempts before it."""
        attempts: list[CallOutcome] = []
        gives_up_at = time.monotonic() + patience_s
        while not attempts or not (is_stopped() or are_over(attempts, most, gives_up_at - time.monotonic())):
            opens_at, refusal = self._pauses.get(name, (0.0, CallOutcome()))
            if opens_at > gives_up_at:
                attempts.append(replace(refusal, run_ms=0.0, attempts=0))
                break
            wait(max(0.0, opens_at - time.monotonic()))
            attempts.append(attempt(attempts))
            if pause_s := attempts[-1].pause_s:
                self._pauses[name] = time.monotonic() + pause_s, attempts[-1]
        return after(attempts)
