"""Count a task's calls of resources for its answer, and store the counts next to it."""

import time
from collections.abc import Callable
from math import ceil

from marless.functions import codec, keys
from marless.functions.errors import KeyTaken, NoSuchObject
from marless.functions.messages.exchange import CallsHeader, Request
from marless.functions.messages.usage import CallTime, CallUse, sums_by_name
from marless.functions.resources.port import CallOutcome
from marless.functions.storage_port import Blobs

MOST_TIMES = 10_000
"""The most calls of one attempt with told times. Further calls are only counted, so that answers stay small."""


class CallMeter:
    """Counts the calls of one attempt at a task, which begins when the meter is made.

    The counts are stored as an object before the object with the task's answer. A later attempt that finds this answer
    reads them there, and so does a coordinator. Results contain nothing that depends on time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since = clock, clock()
        self.use: dict[str, CallUse] = {}
        self.times: list[CallTime] = []
        # The keys of the kept answers that the attempt was given.
        self._given_keys: set[str] = set()

    def now_ms(self) -> float:
        """Milliseconds since the attempt began."""
        return (self._clock() - self._since) * 1000

    def count(self, name: str, outcome: CallOutcome, key: str = "") -> None:
        """Counts a call as it has ended, or as a hit if the attempt was given its kept answer before. `key` names the
        kept answer."""
        use = _use_of(outcome) if outcome.error or key not in self._given_keys else CallUse(hits=1)
        if key and not outcome.error:
            self._given_keys.add(key)
        self.use = sums_by_name(self.use, {name: use})

    def time(self, name: str, outcomes: list[CallOutcome], asked_ms: float) -> None:
        """Notes when calls that were asked side by side at `asked_ms`, and have just been answered, were served.

        Each has the end that it would have alone, although who asks gets all answers with the last.
        """
        now = self.now_ms()
        for outcome in outcomes[: max(0, MOST_TIMES - len(self.times))]:
            begun = min(now, asked_ms + max(0.0, outcome.queued_ms))
            end = min(now, begun + max(0.0, outcome.run_ms))
            times = (round(each, 3) for each in (asked_ms, begun, end))
            self.times.append(CallTime(name, outcome.slot, *times))

    def store(self, request: Request, blobs: Blobs) -> None:
        """Stores the counts, if there are any. The first attempt that stores them wins."""
        if not self.use:
            return
        times = tuple(self.times)
        header = CallsHeader(task=request.address.id, attempt=request.attempt, use=self.use, call_times=times)
        try:
            blobs.put(_key(request), codec.encode({}, header))
        except KeyTaken:
            return

    def adopt(self, request: Request, blobs: Blobs) -> int | None:
        """Read the counts of the attempt that stored this task's answer. Returns its number, or None if they are
        missing. Raises `CorruptObject` and `ForeignObject`."""
        key = _key(request)
        try:
            header = codec.calls_header(blobs.get(key), key, request.address.id)
        except NoSuchObject:
            return None
        self.use, self.times = header.use, list(header.call_times)
        return header.attempt


def _use_of(outcome: CallOutcome) -> CallUse:
    return CallUse(
        count=outcome.attempts,
        hits=int(not outcome.paid),
        ms=ceil(max(0.0, outcome.run_ms)) if outcome.attempts else 0,
        puts=outcome.puts,
        gets=outcome.gets,
    )


def _key(request: Request) -> str:
    return keys.object_key(request.address.output, keys.ACTIONS)
