"""Scheduled invocations, like EventBridge rules with a rate."""

import heapq
import itertools
import logging
import threading
import time
from dataclasses import dataclass

from aws_emulator.lambda_service.invocation_result import Refused
from aws_emulator.lambda_service.lambdas import Lambdas

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Schedule:
    """Invokes the function (a name or an ARN) with `payload` every `period_s` seconds, first after one period."""

    function: str
    qualifier: str | None
    payload: bytes
    period_s: float


class Schedules:
    """Fires schedules on a background thread, thread-safe. Missed periods are skipped."""

    def __init__(self, lambdas: Lambdas) -> None:
        self._lambdas = lambdas
        self._changed = threading.Condition()
        self._schedules: dict[str, Schedule] = {}
        self._due: list[tuple[float, int, str, Schedule]] = []
        self._order = itertools.count()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="schedules", daemon=True)
        self._thread.start()

    def put(self, name: str, schedule: Schedule) -> None:
        """Starts a schedule and replaces one of the same name. Raises `ValueError` if its period is not positive."""
        if not schedule.period_s > 0:
            raise ValueError("a schedule's period is longer than nothing")
        with self._changed:
            self._schedules[name] = schedule
            self._plan(name, schedule, time.monotonic() + schedule.period_s)

    def remove(self, name: str) -> None:
        """Ends a schedule. A missing schedule is ignored."""
        with self._changed:
            self._schedules.pop(name, None)

    def close(self) -> None:
        """Ends all schedules. None fires after it returns. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _plan(self, name: str, schedule: Schedule, due: float) -> None:
        heapq.heappush(self._due, (due, next(self._order), name, schedule))
        self._changed.notify_all()

    def _work(self) -> None:
        while (schedule := self._take()) is not None:
            try:
                self._lambdas.submit(schedule.function, schedule.qualifier, schedule.payload)
            except Refused as refusal:
                _log.warning("the schedule of %s was not followed: %s", schedule.function, refusal)

    def _take(self) -> Schedule | None:
        """Waits for the next due schedule, plans its next run and returns it. `None` after `close`."""
        with self._changed:
            while not self._closed:
                if not self._due:
                    self._changed.wait()
                    continue
                due, _, name, schedule = self._due[0]
                if self._schedules.get(name) is not schedule:
                    heapq.heappop(self._due)
                elif (wait_s := due - time.monotonic()) > 0:
                    self._changed.wait(wait_s)
                else:
                    heapq.heappop(self._due)
                    self._plan(name, schedule, max(due + schedule.period_s, time.monotonic()))
                    return schedule
            return None
