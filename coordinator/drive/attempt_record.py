"""The record of an attempt that ended: a line of attempts.jsonl, the source of timelines and simulations."""

from typing import Annotated, Literal

from msgspec import Meta, field

from marless.coordinator.core.events import AttemptEnded
from marless.coordinator.core.state import WorkItem
from marless.functions.messages.exchange import Answer, Done, Failed, Report
from marless.functions.messages.message import Message
from marless.functions.messages.usage import CallTime, Usage

# Differences and sums of times far beyond these would be no numbers.
Time = Annotated[float, Meta(ge=-1e12, le=1e12)]


class AttemptRecord(Message, frozen=True, kw_only=True):
    """An attempt, from its request to its report."""

    round: int
    # The name of its work item, the number of the attempt, and the function that served it.
    work: str
    attempt: int = 0
    function: str
    # The kind of task, and its size that determines its duration: rollouts, rows of data, or episodes.
    kind: str
    size: float
    # How many functions could run at once.
    slots: Annotated[int, Meta(ge=1)] = 1
    # When it was asked for and when its report arrived, in seconds of the coordinator's clock.
    asked_at: Time = field(name="asked")
    ended_at: Time = field(name="ended")
    # As the platform measured: waiting for a slot where it says so, start-up and run time. The rest was transfer, and
    # waiting elsewhere.
    queued_ms: Time = 0.0
    init_ms: Time = 0.0
    duration_ms: Time = 0.0
    outcome: Literal["answered", "failed", "timeout", "crash", "throttled", "withdrawn"] = "answered"
    usage: Usage = Usage()
    # Its calls of resources. Times are in milliseconds since its task began.
    actions: tuple[CallTime, ...] = ()


def record_of(
    attempt: AttemptEnded, round_: int, item: WorkItem, slots: int, asked_at: float, now: float
) -> AttemptRecord:
    """The record of an attempt that ended, in a round with so many slots. See `AttemptRecord` for times."""
    report, answer = attempt.report, attempt.answer
    return AttemptRecord(
        round=round_,
        work=attempt.work,
        attempt=report.attempt,
        function=report.function,
        kind=item.kind,
        size=item.size or item.weight,
        slots=slots,
        asked_at=asked_at,
        ended_at=now,
        queued_ms=report.queued_ms,
        init_ms=report.init_ms,
        duration_ms=report.duration_ms,
        outcome="failed" if isinstance(answer, Failed) else report.outcome,
        usage=answer.usage if answer else Usage(calls=report.call_use),
        actions=_call_times(answer, report),
    )


def _call_times(answer: Answer | None, report: Report) -> tuple[CallTime, ...]:
    """Return the times of the attempt's own calls, without calls of an earlier attempt with the stored answer."""
    if isinstance(answer, Done) and answer.calls_of not in (None, answer.attempt):
        return ()
    return answer.call_times if answer else report.call_times
