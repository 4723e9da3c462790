"""One turn of a detached run: hear what has ended, decide, ask for more, and go.

Between two turns nobody is there. Whatever an event brings, a turn first looks at what stands written: an event that is
doubled, late, or somebody else's does nothing, and one that was lost is made up for by the next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple, Protocol, cast

from msgspec.structs import replace

from coordinator.core.events import CompletionsBilled, Lost, Reported
from coordinator.core.state import Plan, Slot, State
from coordinator.core.tasks import in_flight
from coordinator.drive.driver import Driver, Ports
from coordinator.drive.ports import Invoker
from coordinator.drive.telling import Detached, asked, telling
from functions import codec, completion, keys
from functions.completion import CompletionReport
from functions.contract import (
    Answer,
    CorruptObject,
    Failed,
    FailureKind,
    ForeignObject,
    Ref,
    Report,
    Request,
    StorageFault,
    Usage,
)
from functions.ports import Completions, Head, Heads
from functions.serving import last_object, stored_answer

# How long the platform may turn events away.
PATIENCE_S = 60.0

Outcome = Literal["answered", "timeout", "crash", "throttled"]
# Ends without a failure that a function reported: it answered, or it could not say more.
_SILENT = ("", "timeout", "crash", "throttled")


class Sender(Invoker, Protocol):
    """Starts functions that nobody waits for."""

    def flush(self, patience_s: float) -> list[tuple[str, int, str, bool]]:
        """Sends all that was asked for, trying for `patience_s` seconds; returns what failed: (id, attempt, why,
        whether it may run all the same)."""


@dataclass(frozen=True)
class CloudPorts:
    """What a turn needs beside the ports of the run: the completion sets, headers, and the time in epoch seconds."""

    completions: Completions
    heads: Heads
    sender: Sender
    now: Callable[[], float]


class Turned(NamedTuple):
    """How a run stood before a turn, None for one that had not begun, and how it stands after it."""

    before: State | None
    after: State


def turn(plan: Plan, ports: Ports, around: CloudPorts, detached: Detached, asking: bool, resume: int | None) -> Turned:
    """Takes the run as far as it goes without waiting.

    With `asking` False nothing new is asked: the run ends resumably once what is in flight has ended. A run that still
    stands at version `resume` of its state is taken up again. Raises `StaleVersion` when another turn was quicker: that
    one does it all.
    """
    driver = Driver(plan, ports, around.now, detached)
    begun = driver.take_up()
    before = driver.state if begun else None
    if not begun or driver.version == resume:
        version = driver.version
        driver = Driver(plan, ports, around.now, detached)
        driver.begin(version)
    elif not _hear(plan, driver, around, detached):
        return Turned(before, driver.state)
    while True:
        while not driver.waiting:
            try:
                going = driver.step(asking)
            except StorageFault:
                around.sender.flush(PATIENCE_S)  # what was asked for is committed
                raise
            if not going:
                return Turned(before, driver.state)
        if not _sent(plan, driver, around, detached) or not _hear(plan, driver, around, detached):
            return Turned(before, driver.state)


def _hear(plan: Plan, driver: Driver, around: CloudPorts, detached: Detached) -> bool:
    """Takes in how the tasks ended that were asked last; False while some have time left."""
    works = asked(driver.state)
    if not works:
        driver.tidy()
        return True
    if not completion.is_complete(around.completions, driver.version, len(works)):
        if around.now() < _deadline(plan, driver):
            return False
        # What asked them may have died right after its commit.
        driver.tidy()
    gathered = completion.gather_reports(around.completions, driver.version, len(works))
    slots = driver.state.slots
    reports = {works[index]: _best_first(slots[works[index]], received) for index, received in gathered.reports.items()}
    answers, usage = _answers(plan, driver, around, detached, {work: heard[0] for work, heard in reports.items()})
    for work, heard in sorted(reports.items()):
        for report in heard:
            driver.hear(Reported(work, _report(plan, driver.state, work, report), answers[work]))
    driver.hear(CompletionsBilled(gathered.updates, gathered.reads, usage))
    # Also those whose reports say nothing of the attempt that is waited for.
    if lost := tuple(work for work in works if driver.state.slots[work].waiting):
        driver.hear(Lost(lost))
    return True


def _best_first(slot: Slot, reports: list[CompletionReport]) -> list[CompletionReport]:
    """Of an event that came twice, an answer counts before a failure: it is stored."""
    return sorted(reports, key=lambda report: (report.attempt != slot.attempt, report.kind != ""))


def _deadline(plan: Plan, driver: Driver) -> float:
    """When attempts that were asked at `driver.committed_at` are given up: those that do not fit side by side wait."""
    waiting = [slot for slot in driver.state.slots.values() if slot.waiting]
    waves = -(-len(waiting) // max(1, plan.platform.concurrency))
    longest = max(slot.timeout_s for slot in waiting) + plan.platform.init_limit_ms / 1000
    return driver.committed_at + waves * longest + plan.platform.grace_s


def _answers(
    plan: Plan, driver: Driver, around: CloudPorts, detached: Detached, reports: dict[str, CompletionReport]
) -> tuple[dict[str, Answer | None], Usage]:
    """The answers of works that ended, None where there is none, and what it took to read them."""
    requests = _requests(plan, driver, detached)
    stored = sorted(work for work, report in reports.items() if not report.kind)
    last = {work: keys.object_key(requests[work].output, str(last_object(requests[work]))) for work in stored}
    heads = around.heads([last[work] for work in stored])
    answers: dict[str, Answer | None] = {work: _failure(requests[work], report) for work, report in reports.items()}
    for work, head in zip(stored, heads, strict=True):
        answers[work] = _stored(requests[work], last[work], head, reports[work])
    read = sum(len(head.start) for head in heads if head)
    return answers, Usage(gets=len(stored), bytes_read=read)


def _requests(plan: Plan, driver: Driver, detached: Detached) -> dict[str, Request]:
    """The attempts that are waited for, as they were asked."""
    state, tells = driver.state, telling(driver.state, driver.version, detached)
    return {
        task.work: replace(task.request, attempt=state.slots[task.work].attempt, report_to=tells[task.work])
        for task in in_flight(plan, state)
        if task.work in tells
    }


def _stored(request: Request, key: str, head: Head | None, report: CompletionReport) -> Answer:
    try:
        if head is None:
            # Done again it gives the same bytes.
            return _failed(request, "corrupt_object", f"{key} is missing, although its task reported it", report, True)
        header = codec.header(head.start, key)
        return stored_answer(request, header, Ref(key=key, sha256=head.sha256, size=head.size), report.usage)
    except (CorruptObject, ForeignObject) as error:
        kind: FailureKind = "foreign_object" if isinstance(error, ForeignObject) else "corrupt_object"
        return _failed(request, kind, str(error), report, False)


def _failed(request: Request, kind: FailureKind, message: str, report: CompletionReport, again: bool) -> Failed:
    return Failed(id=request.id, attempt=request.attempt, kind=kind, message=message, again=again, usage=report.usage)


def _failure(request: Request, report: CompletionReport) -> Failed | None:
    """What the function itself said of a failure; None where it could not say anything, or nothing failed."""
    if report.kind in _SILENT:
        return None
    return Failed(
        id=request.id,
        attempt=report.attempt,
        kind=cast(FailureKind, report.kind),
        message=report.message,
        again=report.again,
        usage=report.usage,
    )


def _report(plan: Plan, state: State, work: str, report: CompletionReport) -> Report:
    """The completion report in the form of a platform report."""
    outcome = cast(Outcome, report.kind) if report.kind in _SILENT and report.kind else "answered"
    return Report(
        id=keys.task_id(plan.run, state.round, work),
        attempt=report.attempt,
        function=state.slots[work].item.function,
        outcome=outcome,
        duration_ms=report.duration_ms,
        init_ms=report.start_ms,
        peak_mb=report.peak_mb,
        detail=report.message,
    )


def _sent(plan: Plan, driver: Driver, around: CloudPorts, detached: Detached) -> bool:
    """Sends what was asked. What cannot be sent is reported in its place; True when that completes the ask."""
    unsent = around.sender.flush(PATIENCE_S)
    if not unsent:
        return False
    tells, ended = telling(driver.state, driver.version, detached), False
    prefix = keys.task_id(plan.run, driver.state.round, "")
    for id, attempt, why, unclear in unsent:
        work = id.removeprefix(prefix)
        # One that may run is metered as the longest there is.
        longest_ms = ceil(driver.state.slots[work].timeout_s * 1000)
        report = CompletionReport(
            attempt=attempt,
            duration_ms=longest_ms if unclear else 0,
            kind="crash" if unclear else "throttled",
            message=why[: completion.LONGEST_MESSAGE],
        )
        ended = completion.report_completion(around.completions, tells[work], report) or ended
    return ended
