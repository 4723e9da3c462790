"""One turn of a detached run: receive the reports, decide, dispatch the next tasks, and end.

No process lives between two turns. A turn acts on the ledger alone, so a doubled, late or forged event changes nothing.
The next event makes up for a lost event.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from math import ceil
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from marless.coordinator.core.events import AttemptEnded, Lost, Metered, Reported
from marless.coordinator.core.round_graph import in_flight
from marless.coordinator.core.state import Plan, State
from marless.coordinator.drive.completion_reports import (
    Detached,
    best_first,
    failure_of,
    open_asks,
    report_addresses,
    report_of,
)
from marless.coordinator.drive.driver import Driver, Overtaken
from marless.coordinator.drive.ports import Invoker, Ports
from marless.coordinator.pricing.bill import Meter
from marless.functions import codec, completion, keys
from marless.functions.completion import CompletionReport
from marless.functions.encoding import to_json
from marless.functions.errors import CorruptObject, ForeignObject, StorageFault
from marless.functions.messages.exchange import Answer, Done, Failed, FailureKind, Request
from marless.functions.messages.message import Ref
from marless.functions.messages.usage import Usage
from marless.functions.storage_port import Completions, Heads, ObjectHead
from marless.functions.stored_answers import last_object, stored_answer

# How long the platform may reject events before they are given up.
PATIENCE_S = 60.0
# How often a turn begins again after another turn overtook it.
REPETITIONS = 3


class Sender(Invoker, Protocol):
    """Starts functions without waiting for them."""

    def flush(self, patience_s: float) -> list[tuple[str, int, str, bool]]:
        """Send all invocations, with retries for `patience_s` seconds. Returns the failures: (id, attempt, reason,
        whether it may still run)."""


@dataclass(frozen=True)
class CloudPorts:
    """The ports of a turn besides the ports of the run: completion sets, headers, and the time in epoch seconds."""

    completions: Completions
    heads: Heads
    sender: Sender
    now: Callable[[], float]


class TurnResult(NamedTuple):
    """The run's state before a turn (None before the first turn) and after it."""

    before: State | None
    after: State


def take_turn(
    plan: Plan, ports: Ports, cloud: CloudPorts, detached: Detached, dispatching: bool, resume: int | None
) -> TurnResult:
    """Take the run as far as possible without waiting.

    If `dispatching` is False, no attempt starts, and the run ends resumably after the attempts in flight. A run is
    resumed if its state still has version `resume`. Raises `Overtaken` if other turns are quicker again and again.
    """
    unbilled = Meter()
    for _ in range(REPETITIONS):
        # The quicker turn may have begun before the reports came that woke this one, and nothing else wakes for them.
        try:
            return _take_turn(plan, ports, cloud, detached, dispatching, resume, unbilled)
        except Overtaken as overtaken:
            unbilled = overtaken.meter
    return _take_turn(plan, ports, cloud, detached, dispatching, resume, unbilled)


def _take_turn(
    plan: Plan,
    ports: Ports,
    cloud: CloudPorts,
    detached: Detached,
    dispatching: bool,
    resume: int | None,
    unbilled: Meter,
) -> TurnResult:
    """Try `take_turn` once, and bill the use of earlier tries too. Raises `Overtaken` if another turn is quicker."""
    driver = Driver(plan, ports, cloud.now, detached)
    before = driver.load(unbilled)
    if before is None or driver.version == resume:
        driver.start()
    else:
        driver.go_on()
        if not _receive_reports(plan, driver, cloud, detached):
            return _idle(driver, before, unbilled)
    while True:
        while not driver.waits(dispatching):
            try:
                going = driver.step(dispatching)
            except StorageFault:
                cloud.sender.flush(PATIENCE_S)  # the invocations are committed
                raise
            if not going:
                return TurnResult(before, driver.state)
        # Reports that nothing follows from yet, of learners while an evaluation is in flight, are received once.
        driver.commit_received()
        if not _send(plan, driver, cloud, detached) or not _receive_reports(plan, driver, cloud, detached):
            return TurnResult(before, driver.state)


def _idle(driver: Driver, before: State, unbilled: Meter) -> TurnResult:
    """End a turn that finds nothing to do. It commits its use only after overtaken tries, which may have been
    expensive. If another turn has ended the run, the bill is closed."""
    if unbilled == Meter() or before.status != "running":
        return TurnResult(before, before)
    driver.commit_received()
    return TurnResult(before, driver.state)


def _receive_reports(plan: Plan, driver: Driver, cloud: CloudPorts, detached: Detached) -> bool:
    """Receive the ends of tasks that are awaited together. Returns False while each such set has tasks with time left,
    and if the run has ended."""
    if not (asks := open_asks(driver.state)):
        driver.clean_up()
        return driver.state.status == "running"
    top_sets = {ask: completion.read_top_set(cloud.completions, ask, len(works)) for ask, works in asks.items()}
    driver.bill_turn(_use_of_reading([top_set.size for top_set in top_sets.values()], Usage()))
    complete = [ask for ask, top_set in top_sets.items() if top_set.is_complete]
    if len(complete) < len(asks) and cloud.now() >= _deadline(plan, driver):
        # The turn that dispatched the others may have died right after its commit.
        driver.clean_up()
        complete = list(asks)
    for ask in complete:
        _receive_ask(plan, driver, cloud, detached, ask, asks[ask])
    return bool(complete)


def _receive_ask(plan: Plan, driver: Driver, cloud: CloudPorts, detached: Detached, ask: str, works: list[str]) -> None:
    gathering, slots = completion.gather_reports(cloud.completions, ask, len(works)), driver.state.slots
    reports = {works[index]: best_first(slots[works[index]], each) for index, each in gathering.reports.items()}
    requests = _dispatched_requests(plan, driver, detached)
    answers, usage = _read_answers(requests, cloud, {work: each[0] for work, each in reports.items()})
    throttled_work = {work for work, each in reports.items() if each[0].kind == "throttled"}
    events = tuple(len(to_json(requests[work])) for work in works if work not in throttled_work)
    attempts_over = [
        AttemptEnded(work, report_of(plan, driver.state, work, report), answers[work])
        for work, each in sorted(reports.items())
        for report in each
    ]
    driver.receive(Reported(tuple(attempts_over)))
    driver.receive(Metered(reduce(Meter.add_event, events, reduce(Meter.add_commit, gathering.updates, Meter()))))
    driver.bill_turn(_use_of_reading(gathering.reads, usage))
    # Works are lost, too, if their reports belong to other attempts.
    if lost_work := tuple(work for work in works if driver.state.slots[work].waiting):
        driver.receive(Lost(lost_work))


def _use_of_reading(sets: Iterable[int], answers: Usage) -> Meter:
    return reduce(Meter.add_load, sets, Meter().add_stored(answers))


def _deadline(plan: Plan, driver: Driver) -> float:
    """Return the deadline of the attempts dispatched at `driver.committed_at`. They may run in waves."""
    waiting = driver.state.waiting.values()
    wave_count = -(-len(waiting) // max(1, plan.platform.concurrency))
    longest_s = max(slot.timeout_s for slot in waiting) + plan.platform.init_limit_ms / 1000
    return driver.committed_at + wave_count * longest_s + plan.platform.grace_s


def _read_answers(
    requests: dict[str, Request], cloud: CloudPorts, reports: dict[str, CompletionReport]
) -> tuple[dict[str, Answer | None], Usage]:
    """Return the answers of works that ended, or None, and the storage operations that reading them took."""
    answered_work = sorted(work for work, report in reports.items() if not report.kind)
    last = {
        work: keys.object_key(requests[work].address.output, str(last_object(requests[work]))) for work in answered_work
    }
    asked_work = [work for work in answered_work if requests[work].resources]
    stored_actions = [keys.object_key(requests[work].address.output, keys.ACTIONS) for work in asked_work]
    heads = cloud.heads([*(last[work] for work in answered_work), *stored_actions])
    actions = dict(zip(asked_work, heads[len(answered_work) :], strict=True))
    answers: dict[str, Answer | None] = {work: failure_of(requests[work], report) for work, report in reports.items()}
    for work, head in zip(answered_work, heads, strict=False):
        answers[work] = _read_answer(requests[work], last[work], head, actions.get(work), reports[work])
    gets, bytes_read = sum(head.gets if head else 1 for head in heads), sum(len(head.start) for head in heads if head)
    return answers, Usage(gets=gets, bytes_read=bytes_read)


def _dispatched_requests(plan: Plan, driver: Driver, detached: Detached) -> dict[str, Request]:
    state, addresses = driver.state, report_addresses(driver.state, detached)
    return {
        node.name: replace(node.request(), attempt=state.slots[node.name].attempt, report_to=addresses[node.name])
        for node in in_flight(plan, state)
        if node.name in addresses
    }


def _read_answer(
    request: Request, key: str, head: ObjectHead | None, actions: ObjectHead | None, report: CompletionReport
) -> Answer:
    try:
        if head is None:
            # Another attempt gives the same bytes.
            return _failed(request, "corrupt_object", f"{key} is missing, although its task reported it", report, True)
        header = codec.header(head.start, key)
        done = stored_answer(request, header, Ref(key=key, sha256=head.sha256, size=head.size), report.usage)
        return _with_calls(request, done, actions) if actions else done
    except (CorruptObject, ForeignObject) as error:
        kind: FailureKind = "foreign_object" if isinstance(error, ForeignObject) else "corrupt_object"
        return _failed(request, kind, str(error), report, False)


def _with_calls(request: Request, done: Done, head: ObjectHead) -> Done:
    """Return the answer with the task's resource calls. Raises `CorruptObject` and `ForeignObject`."""
    key = keys.object_key(request.address.output, keys.ACTIONS)
    stored = codec.calls_header(head.start, key, request.address.id)
    usage = replace(done.usage, calls=stored.use)
    return replace(done, usage=usage, call_times=stored.call_times, calls_of=stored.attempt)


def _failed(request: Request, kind: FailureKind, message: str, report: CompletionReport, again: bool) -> Failed:
    return Failed(
        id=request.address.id, attempt=request.attempt, kind=kind, message=message, again=again, usage=report.usage
    )


def _send(plan: Plan, driver: Driver, cloud: CloudPorts, detached: Detached) -> bool:
    """Send the dispatched tasks, and a report for each task that cannot be sent. True if this completes the reports."""
    if not (unsent := cloud.sender.flush(PATIENCE_S)):
        return False
    addresses, complete = report_addresses(driver.state, detached), False
    prefix = keys.task_id(plan.run, driver.state.round, "")
    for id, attempt, why, may_run in unsent:
        work = id.removeprefix(prefix)
        # An attempt that may run is metered at its time-out.
        longest_ms = ceil(driver.state.slots[work].timeout_s * 1000)
        report = CompletionReport(
            attempt=attempt,
            duration_ms=longest_ms if may_run else 0,
            kind="crash" if may_run else "throttled",
            message=why[: completion.LONGEST_MESSAGE],
        )
        complete = completion.report_completion(cloud.completions, addresses[work], report) or complete
    return complete
