"""Measure the cores that a process and its descendants keep busy."""

import time
from collections.abc import Callable
from typing import NamedTuple

from marless.infra.local.processes.process_tree import processor_s

# Over how long it is measured.
_RECENT_S = 0.25


class ProcessorUse:
    """Of the tasks of the process with the number `pid`: as expected while a task is new, as measured lately later.

    The system is asked only on demand, which takes a tenth of a millisecond.
    """

    def __init__(self, pid: Callable[[], int]) -> None:
        self._pid = pid
        self.expected = 0.0
        """Cores that are expected of the task."""
        self._is_granted = False
        # The times of the first and last measurement, and the results. The cores before the last.
        self._first: _Look | None = None
        self._last: _Look | None = None
        self._recent: float | None = None

    def begin(self, expected: float) -> None:
        """A task begins."""
        self.expected, self._is_granted, self._first = expected, False, None
        self.renew()

    def grant(self, cores: int) -> None:
        """The task has so many cores, and counts as if it kept them busy."""
        self.expected, self._is_granted = float(cores), True

    def renew(self) -> None:
        """Forget the recent measurement, because it predicts nothing."""
        self._last = self._recent = None

    def cores(self) -> float:
        """The number of cores that it keeps busy."""
        if self._is_granted:
            return self.expected
        if self._last is None:
            self._last = self._look()
            self._first = self._first or self._last
        elif time.monotonic() - self._last.at >= _RECENT_S:
            before, self._last = self._last, self._look()
            self._recent = self._last.cores_since(before)
        return self.expected if self._recent is None else self._recent

    def mean(self, reported: float = 0.0) -> float:
        """The mean number of cores that the task has kept busy so far. For a short or unmeasured task, the value that
        the process has `reported` counts. It leaves out descendants."""
        if self._first is None or time.monotonic() - self._first.at < _RECENT_S:
            return reported
        return max(reported, self._look().cores_since(self._first))

    def _look(self) -> "_Look":
        return _Look(time.monotonic(), processor_s(self._pid()))


class _Look(NamedTuple):
    at: float
    processor_s: float

    def cores_since(self, before: "_Look") -> float:
        return max(0.0, self.processor_s - before.processor_s) / (self.at - before.at)
