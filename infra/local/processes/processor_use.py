"""How many cores a process keeps busy with all that it has started."""

import time
from collections.abc import Callable

from infra.local.processes.process_tree import processor_s

# Over how long it is measured.
_RECENT_S = 0.25


class ProcessorUse:
    """Of the tasks of the process with the number `pid`: as expected while a task is new, as measured lately later."""

    def __init__(self, pid: Callable[[], int]) -> None:
        self._pid = pid
        self.expected = 0.0
        """Cores that are expected of the task."""
        self._is_granted = False
        # Processor seconds at the beginning; when they were looked at last, and what they were; the cores before that.
        self._first_s = self._looked_at = self._last_s = 0.0
        self._recent: float | None = None
        self._began_at = 0.0

    def begin(self, expected: float) -> None:
        """A task begins."""
        self.expected, self._is_granted = expected, False
        self.renew()
        self._began_at, self._first_s = self._looked_at, self._last_s

    def grant(self, cores: int) -> None:
        """The task has so many cores, and counts as if it kept them busy."""
        self.expected, self._is_granted = float(cores), True

    def renew(self) -> None:
        """What was measured lately tells nothing of what comes."""
        self._looked_at, self._last_s, self._recent = time.monotonic(), processor_s(self._pid()), None

    def cores(self) -> float:
        """Those that it keeps busy."""
        if self._is_granted:
            return self.expected
        before, before_s = self._looked_at, self._last_s
        if time.monotonic() - before >= _RECENT_S:
            self.renew()
            self._recent = max(0.0, self._last_s - before_s) / (self._looked_at - before)
        return self.expected if self._recent is None else self._recent

    def mean(self, reported: float = 0.0) -> float:
        """Those that the task has kept busy so far. Of a short one the system measures nothing, and what the process
        has `reported` counts, which is without what it has started."""
        elapsed_s = time.monotonic() - self._began_at
        if elapsed_s < _RECENT_S:
            return reported
        return max(reported, (processor_s(self._pid()) - self._first_s) / elapsed_s)
