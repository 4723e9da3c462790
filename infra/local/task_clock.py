"""The time that a worker's task may take, which stands still while it waits for answers of others."""

import time


class TaskClock:
    """The clock of one task after the other. All times are the monotonic clock's."""

    def __init__(self) -> None:
        self.since = 0.0
        """When it was started last."""
        self.allowed_s = 0.0
        """Seconds that the task may take, including its stops."""
        self._expires = 0.0
        self._stopped_at: float | None = None

    @property
    def expires(self) -> float:
        """Return when the time is over, or `inf` while it is stopped."""
        return self._expires if self._stopped_at is None else float("inf")

    def start(self, seconds: float) -> None:
        """A task that may take so long begins."""
        self.allowed_s, self._stopped_at = seconds, None
        self.since = time.monotonic()
        self._expires = self.since + seconds

    def stop(self) -> None:
        """The task waits for others from now on."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()

    def go_on(self) -> None:
        """It waits no more."""
        if self._stopped_at is not None:
            waited_s = time.monotonic() - self._stopped_at
            self._stopped_at = None
            self.allowed_s += waited_s
            self._expires += waited_s

    def extend(self, seconds: float) -> None:
        """The task has run for all of its time, and is near its end. It gets so many seconds from now, but at most its
        time again."""
        most = self.since + 2 * self.allowed_s + seconds
        self._expires = min(max(self._expires, time.monotonic() + seconds), most)

    def elapsed_s(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self.since
