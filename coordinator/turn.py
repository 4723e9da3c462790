"""One turn of a detached run: hear what has ended, decide, ask for more, and go.

Between two turns nobody is there. Whatever an event brings, a turn first looks at what stands written: an event that is
doubled, late, or somebody else's does nothing, and one that was lost is made up for by the next.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, cast

from msgspec.structs import replace

from coordinator.events import Gathered, Lost, Reported
from coordinator.loop import Driver, Ports
from coordinator.ports import Invoker
from coordinator.state import Plan, State
from coordinator.tasks import in_flight
from coordinator.telling import Detached, asked, telling
from functions import codec, completion, keys
from functions.completion import Note
from functions.contract import Answer, CorruptObject, Failed, FailureKind, ForeignObject, Ref, Report, Request, Usage
from functions.ports import Completions, Head, Heads
from functions.serving import last_object, stored_answer

# How long the platform may turn events away.
PATIENCE_S = 60.0

Outcome = Literal["answered", "timeout", "crash", "throttled"]
# Ends without a failure that a function reported: it answered, or it could not say more.
_SILENT = ("", "timeout", "crash", "throttled")


class Sender(Invoker, Protocol):
    """Starts functions that nobody waits for."""

    def flush(self, patience_s: float) -> list[tuple[str, int, str]]:
        """Sends all that was asked for, trying for `patience_s` seconds; returns (id, attempt, why) of what failed."""


@dataclass(frozen=True)
class Surroundings:
    """What a turn needs beside the ports of the run: the completion sets, headers, and the time in epoch seconds.

    `grace_s` is what may pass, beyond time-outs and start-ups, before attempts that nobody heard of are given up.
    """

    completions: Completions
    heads: Heads
    sender: Sender
    now: Callable[[], float]
    grace_s: float = 30.0


class Turned(NamedTuple):
    """How a run stood before a turn, None for one that had not begun, and how it stands after it."""

    before: State | None
    after: State


def turn(plan: Plan, ports: Ports, around: Surroundings, detached: Detached, asking: bool, resume: bool) -> Turned:
    """Takes the run as far as it goes without waiting.

    With `asking` False nothing new is asked: the run ends resumably once what is in flight has ended. With `resume` a
    run that stood still is taken up again. Raises `StaleVersion` when another turn was quicker: that one does it all.
    """
    driver = Driver(plan, ports, around.now, detached)
    begun = driver.take_up()
    before = driver.state if begun else None
    if resume or not begun:
        driver = Driver(plan, ports, around.now, detached)
        driver.begin()
    elif not _hear(plan, driver, around, detached):
        return Turned(before, driver.state)
    while True:
        while not driver.waiting:
            if not driver.step(asking):
                return Turned(before, driver.state)
        if not _sent(plan, driver, around, detached) or not _hear(plan, driver, around, detached):
            return Turned(before, driver.state)


def _hear(plan: Plan, driver: Driver, around: Surroundings, detached: Detached) -> bool:
    """Takes in how the tasks ended that were asked last; False while some have time left."""
    works = asked(driver.state)
    if not works:
        driver.tidy()
        return True
    if not completion.complete(around.completions, driver.version, len(works)):
        if around.now() < _deadline(plan, driver, around):
            return False
        # What asked them may have died right after its commit.
        driver.tidy()
    told = completion.gather(around.completions, driver.version, len(works))
    answers, usage = _answers(
        plan, driver, around, detached, {works[index]: told.notes[index][0] for index in told.notes}
    )
    for index, notes in sorted(told.notes.items()):
        work = works[index]
        for note in notes:
            driver.hear(Reported(work, _report(plan, driver.state, work, note), answers[work]))
    driver.hear(Gathered(told.updates, told.reads, usage))
    if lost := tuple(work for index, work in enumerate(works) if index not in told.notes):
        driver.hear(Lost(lost))
    return True


def _deadline(plan: Plan, driver: Driver, around: Surroundings) -> float:
    """When attempts that were asked at `driver.asked_at` are given up: those that do not fit side by side wait."""
    waiting = [slot for slot in driver.state.slots.values() if slot.waiting]
    waves = -(-len(waiting) // max(1, plan.width))
    longest = max(slot.timeout_s for slot in waiting) + plan.init_limit_ms / 1000
    return driver.committed_at + waves * longest + around.grace_s


def _answers(
    plan: Plan, driver: Driver, around: Surroundings, detached: Detached, notes: dict[str, Note]
) -> tuple[dict[str, Answer | None], Usage]:
    """The answers of works that ended, None where there is none, and what it took to read them."""
    requests = _requests(plan, driver, detached)
    stored = sorted(work for work, note in notes.items() if not note.kind)
    last = {work: keys.object_key(requests[work].output, str(last_object(requests[work]))) for work in stored}
    heads = around.heads([last[work] for work in stored])
    answers: dict[str, Answer | None] = {work: _failure(requests[work], note) for work, note in notes.items()}
    for work, head in zip(stored, heads, strict=True):
        answers[work] = _stored(requests[work], last[work], head, notes[work])
    read = sum(len(head.start) for head in heads if head)
    return answers, Usage(gets=len(stored), bytes_read=read)


def _requests(plan: Plan, driver: Driver, detached: Detached) -> dict[str, Request]:
    """The attempts that are waited for, as they were asked."""
    state, tells = driver.state, telling(driver.state, driver.version, detached)
    return {
        task.work: replace(task.request, attempt=state.slots[task.work].attempt, tell=tells[task.work])
        for task in in_flight(plan, state)
        if task.work in tells
    }


def _stored(request: Request, key: str, head: Head | None, note: Note) -> Answer:
    try:
        if head is None:
            raise CorruptObject(f"{key} is missing, although its task reported it")
        header = codec.header(head.start, key)
        return stored_answer(request, header, Ref(key=key, sha256=head.sha256, size=head.size), note.usage)
    except (CorruptObject, ForeignObject) as error:
        kind: FailureKind = "foreign_object" if isinstance(error, ForeignObject) else "corrupt_object"
        return Failed(
            id=request.id, attempt=request.attempt, kind=kind, message=str(error), again=False, usage=note.usage
        )


def _failure(request: Request, note: Note) -> Failed | None:
    """What the function itself said of a failure; None where it could not say anything, or nothing failed."""
    if note.kind in _SILENT:
        return None
    return Failed(
        id=request.id,
        attempt=note.attempt,
        kind=cast(FailureKind, note.kind),
        message=note.message,
        again=note.again,
        usage=note.usage,
    )


def _report(plan: Plan, state: State, work: str, note: Note) -> Report:
    """The note as the platform would have reported it."""
    outcome = cast(Outcome, note.kind) if note.kind in _SILENT and note.kind else "answered"
    return Report(
        id=keys.task_id(plan.run, state.round, work),
        attempt=note.attempt,
        function=state.slots[work].function,
        outcome=outcome,
        duration_ms=note.duration_ms,
        init_ms=note.start_ms,
        peak_mb=note.peak_mb,
        detail=note.message,
    )


def _sent(plan: Plan, driver: Driver, around: Surroundings, detached: Detached) -> bool:
    """Sends what was asked. What cannot be sent is reported in its place; True when that completes the ask."""
    unsent = around.sender.flush(PATIENCE_S)
    if not unsent:
        return False
    tells, ended = telling(driver.state, driver.version, detached), False
    prefix = keys.task_id(plan.run, driver.state.round, "")
    for id, attempt, why in unsent:
        note = Note(attempt=attempt, duration_ms=0, kind="throttled", message=why[: completion.LONGEST_MESSAGE])
        ended = completion.tell(around.completions, tells[id.removeprefix(prefix)], note) or ended
    return ended
