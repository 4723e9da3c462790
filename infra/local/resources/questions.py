"""Questions of tasks to resources: from the call until its outcome is told."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from marless.functions.messages.usage import CallTime
from marless.functions.resources.attempts import are_over, tries
from marless.functions.resources.port import CallOutcome, ResourceCall
from marless.functions.resources.settings import Resource
from marless.infra.local.dispatch import QueuedTask
from marless.infra.local.lane import Lane


@dataclass(slots=True, eq=False)
class Question:
    """A call, in one attempt after the other."""

    asker: Lane
    """The lane of the task that asks."""
    name: str
    resource: Resource
    call: ResourceCall
    tell: Callable[[CallOutcome], None] | None
    """None when the task that asked has ended."""
    asked_at: float = field(default_factory=time.monotonic)
    begun_at: float = 0.0
    """When its first attempt began, or 0 before."""
    ended_at: float = 0.0
    """When its outcome was there, or 0 before."""
    cores: int = 1
    """Of its last attempt."""
    slot: int = 0
    """Of its last attempt."""
    queued_ms: float = 0.0
    attempts: list[CallOutcome] = field(default_factory=list)
    """The attempts that have ended."""
    failed_before: Sequence[CallOutcome] = ()
    """Attempts for a task that had ended by then: paid with the answer, which its next attempt gets."""
    first_task: QueuedTask | None = None
    """Of its first attempt: its place in the queue."""
    attempt_id: str = ""
    """Of the one that has not."""
    is_served: bool = False
    """Whether that has begun."""
    served_at: float = 0.0
    """When it has."""
    is_last: bool = False
    """Whether no other attempt is made, as the resource is down."""

    def begin(self, slot: int, cores: int, queued_ms: float) -> None:
        """An attempt begins."""
        self.slot, self.cores, self.is_served = slot, cores, True
        self.queued_ms += queued_ms
        self.served_at = time.monotonic()
        self.begun_at = self.begun_at or self.served_at

    def attempt_ended(self, outcome: CallOutcome) -> None:
        """An attempt has ended."""
        self.attempts.append(outcome)
        self.is_served = False

    @property
    def is_over(self) -> bool:
        """Return True if this was the last attempt, see `attempts.are_over`, or the asking task has left."""
        return self.tell is None or self.is_last or are_over(self.attempts, self.resource.attempts, self.patience_s())

    def is_beside(self, other: "Question") -> bool:
        """Return True if both are of the same task and for the same resource."""
        theirs = (other.asker, other.name, other.call.asked_by)
        return (self.asker, self.name, self.call.asked_by) == theirs

    def patience_s(self) -> float:
        """Return how many seconds it may still wait for a resource that asks for a pause."""
        if self.asker.is_withdrawn or self.is_last:
            return 0.0
        now = time.monotonic()
        return (self.begun_at or now) + self.resource.patience_s - now

    def all_attempts(self) -> list[CallOutcome]:
        """The attempts that have ended, for any asker."""
        return [*self.failed_before, *self.attempts]

    def tries(self) -> int:
        """Return how often it was asked so far."""
        return tries(self.attempts) + self.is_served

    def run_ms(self) -> float:
        """Milliseconds that it was served so far."""
        served_ms = (time.monotonic() - self.served_at) * 1000 if self.is_served else 0.0
        return sum(attempt.run_ms for attempt in self.all_attempts()) + served_ms

    def time(self, since: float) -> CallTime:
        """The times of asking and serving so far, in milliseconds since `since`. It has begun."""
        points = (self.asked_at, self.begun_at, self.ended_at or time.monotonic())
        return CallTime(self.name, self.slot, *(round(max(0.0, point - since) * 1000, 3) for point in points))

    def end(self, outcome: CallOutcome) -> None:
        """The outcome of all attempts is there."""
        self.ended_at = time.monotonic()
        if self.tell is not None:
            self.tell(replace(outcome, queued_ms=self.queued_ms, slot=self.slot))
