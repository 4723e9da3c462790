"""Decide when the next call of a resource may begin, by its rate and the pause that the resource asks for.

Two of them are never closer than the rate's interval. So any stretch of w seconds has at most 1 + w * rate beginnings,
however a service counts them. An interval that passes unused is not saved up for a burst.
"""

from math import inf


class RateLimit:
    """Beginnings of calls, at most `per_s` in a second on average, or 0 for no limit."""

    def __init__(self, per_s: float) -> None:
        self._interval_s = 1 / per_s if per_s else 0.0
        self._opens_at = -inf

    def wait_s(self, now: float) -> float:
        """Seconds from `now` until the next call may begin, or 0 for now."""
        return max(0.0, self._opens_at - now)

    def begin(self, now: float) -> None:
        """A call begins."""
        self._opens_at = max(self._opens_at, now + self._interval_s)

    def pause(self, until: float) -> None:
        """No call begins before `until`."""
        self._opens_at = max(self._opens_at, until)
