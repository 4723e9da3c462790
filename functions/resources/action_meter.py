"""What a task asks of resources: counted for its answer, and stored beside it."""

import time
from collections.abc import Callable
from math import ceil

from functions import codec, keys
from functions.contract import (
    ActionsHeader,
    ActionTime,
    ActionUse,
    ForeignObject,
    KeyTaken,
    NoSuchObject,
    Request,
    sums_by_name,
)
from functions.resources.port import Outcome
from functions.storage_port import Blobs

MOST_TIMES = 10_000
"""Actions of one attempt whose times are told; further ones are only counted, so that answers stay small."""


class ActionMeter:
    """Counts the actions of one attempt at a task, which begins when the meter is made.

    What it has counted is stored as an object before the one with the task's answer: a later attempt that finds this
    answer, and a coordinator that waited for nobody, read it there. Results hold nothing that follows from time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since = clock, clock()
        self.use: dict[str, ActionUse] = {}
        self.times: tuple[ActionTime, ...] = ()

    def now_ms(self) -> float:
        """Milliseconds since the attempt began."""
        return (self._clock() - self._since) * 1000

    def count(self, name: str, outcome: Outcome) -> None:
        """Counts an action, or a question whose kept answer was there; what it took is of those who pay."""
        use = ActionUse(count=1, ms=ceil(max(0.0, outcome.run_ms))) if outcome.paid else ActionUse(hits=1)
        self.use = sums_by_name(self.use, {name: use})

    def time(self, name: str, outcomes: list[Outcome], asked_ms: float) -> None:
        """Notes when actions that were asked side by side at `asked_ms`, and have just been answered, were served.

        Each has the end that it would have alone, although who asks gets all answers with the last.
        """
        now = self.now_ms()
        for outcome in outcomes[: max(0, MOST_TIMES - len(self.times))]:
            begun = min(now, asked_ms + max(0.0, outcome.queued_ms))
            end = min(now, begun + max(0.0, outcome.run_ms))
            times = (round(each, 3) for each in (asked_ms, begun, end))
            self.times += (ActionTime(name, outcome.slot, *times),)

    def store(self, request: Request, blobs: Blobs) -> None:
        """Stores what was counted, if anything was; the first attempt that comes here counts."""
        if not self.use:
            return
        header = ActionsHeader(task=request.address.id, attempt=request.attempt, use=self.use, actions=self.times)
        try:
            blobs.put(key_of(request), codec.encode({}, header))
        except KeyTaken:
            return

    def adopt(self, request: Request, blobs: Blobs) -> int | None:
        """Counts what the attempt has stored whose answer this one gives, and returns its number; None where it asked
        nothing. Raises as `read`."""
        try:
            header = read(request, blobs.get(key_of(request)))
        except NoSuchObject:
            return None
        self.use, self.times = header.use, header.actions
        return header.attempt


def key_of(request: Request) -> str:
    """The key of the object with a task's actions."""
    return keys.object_key(request.address.output, keys.ACTIONS)


def read(request: Request, body: bytes) -> ActionsHeader:
    """What a task has stored, from the object's bytes or from as many as its header has; raises `CorruptObject`, and
    `ForeignObject` for another task's."""
    key = key_of(request)
    header = codec.actions_header(body, key)
    if header.task != request.address.id:
        raise ForeignObject(f"{key} was written by task {header.task}, not by {request.address.id}")
    return header
