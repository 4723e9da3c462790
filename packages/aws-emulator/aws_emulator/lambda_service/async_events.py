"""The queue of asynchronous events, with retries."""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aws_emulator.lambda_service.environments import Invocation
from aws_emulator.lambda_service.invocation_result import Refused, unavailable
from aws_emulator.lambda_service.versions import Target

# Source: AWS documentation, "How Lambda handles errors and retries with asynchronous invocation". A throttled event
# waits from 1 s to 5 minutes, a failed event 1 minute and then 2. The waits here follow the same order but are shorter.
THROTTLED_FIRST_S, THROTTLED_LONGEST_S = 0.1, 5.0
FAILED_S = 1.0

_log = logging.getLogger(__name__)


@dataclass
class Event:
    """An accepted event and its attempts so far."""

    target: Target
    invocation: Invocation
    endless: bool
    arrival_s: float = field(default_factory=time.monotonic)
    throttles: int = 0
    failures: int = 0
    refusal: Refused | None = None

    def left_s(self) -> float:
        """Seconds until the event is too old."""
        return self.arrival_s + self.target.function.max_event_age_s - time.monotonic()

    def count_throttle(self, refusal: Refused) -> float:
        """Counts a throttle or a service fault. Returns the seconds until the next attempt, at most `left_s`."""
        self.refusal = refusal
        pause = min(THROTTLED_LONGEST_S, THROTTLED_FIRST_S * 2.0 ** min(self.throttles, 32))
        self.throttles += 1
        return max(0.0, min(pause, self.left_s()))

    def count_failure(self) -> float | None:
        """Counts a function error. Returns the seconds until the next attempt, or `None` if no retry is left."""
        self.failures += 1
        return FAILED_S * self.failures if self.failures <= self.target.function.max_retries else None


class EventQueue:
    """Calls `attempt` with due events on `width` threads.

    `attempt` returns the seconds until the event's next attempt, or `None` if the event is finished. Events are kept in
    memory: stopping the queue drops them.
    """

    def __init__(self, attempt: Callable[[Event], float | None], width: int) -> None:
        self._attempt = attempt
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Event]] = []
        self._order = itertools.count()
        self._closed = False
        self._threads = [threading.Thread(target=self._work, name="events", daemon=True) for _ in range(width)]
        for thread in self._threads:
            thread.start()

    def put(self, event: Event, after_s: float = 0.0) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + after_s, next(self._order), event))
            self._changed.notify()

    def stop(self) -> None:
        """Drops queued events. No further attempt begins."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify_all()

    def join(self) -> None:
        """Waits for running attempts to end. Call it after `stop`."""
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (event := self._take()) is not None:
            try:
                after_s = self._attempt(event)
            except Exception as error:
                _log.exception("an attempt at event %s ended in a fault of the emulation", event.invocation.request_id)
                after_s = event.count_throttle(unavailable(str(error)))
            if after_s is not None:
                self.put(event, after_s)

    def _take(self) -> Event | None:
        """Waits for the next due event and returns it. `None` if the queue is closed."""
        with self._changed:
            while not self._closed:
                wait_s = self._due[0][0] - time.monotonic() if self._due else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait_s)
            return None
