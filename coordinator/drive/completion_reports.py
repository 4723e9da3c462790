"""Completion reports of a detached run: where its tasks send them, and the outcome of an attempt."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, cast

from marless.coordinator.core.state import Plan, Slot, State
from marless.functions import keys
from marless.functions.completion import CompletionReport
from marless.functions.messages.exchange import Failed, FailureKind, Report, Request
from marless.functions.messages.order import ReportTo

Outcome = Literal["answered", "timeout", "crash", "throttled"]
# Kinds of ends that are not a failure that the function itself described.
_WITHOUT_FAILURE = ("", "timeout", "crash", "throttled")


@dataclass(frozen=True)
class Detached:
    """The inputs of a driver that lives for one turn of the coordinator's function."""

    # The function to wake when all tasks that were dispatched together have ended.
    coordinator: str
    # Milliseconds of work and of start-up that are not billed yet. Zeros from the second call of a turn on.
    unbilled_ms: Callable[[], tuple[float, float]]
    # Bytes of each ledger item that was read before the driver was made.
    loads: tuple[int, ...] = ()


def new_asks(version: int, works: Iterable[str], awaited_works: Iterable[Collection[str]]) -> dict[str, str]:
    """Return the ask of each of the `works` that commit number `version` dispatches. Works with the same waiting tasks
    share an ask (`Dispatch.awaited`). All works without waiting tasks share another ask."""
    number_of = {work: number for number, together in enumerate(awaited_works, 1) for work in together}
    return {work: f"{version}.{number_of.get(work, 0)}" for work in works}


def open_asks(state: State) -> dict[str, list[str]]:
    """The works without a report yet by their ask, in the order of their `ReportTo.index`."""
    asks: dict[str, list[str]] = {}
    for work, slot in sorted(state.waiting.items()):
        asks.setdefault(slot.ask, []).append(work)
    return asks


def report_addresses(state: State, detached: Detached) -> dict[str, ReportTo]:
    """Return the report address of each waiting work."""
    return {
        work: ReportTo(ask=ask, index=index, count=len(works), coordinator=detached.coordinator)
        for ask, works in open_asks(state).items()
        for index, work in enumerate(works)
    }


def best_first(slot: Slot, reports: list[CompletionReport]) -> list[CompletionReport]:
    """The reports of an event that was delivered twice: an answer precedes a failure, for it is stored."""
    return sorted(reports, key=lambda report: (report.attempt != slot.attempt, report.kind != ""))


def failure_of(request: Request, report: CompletionReport) -> Failed | None:
    """Return the failure that the function itself described, or None."""
    if report.kind in _WITHOUT_FAILURE:
        return None
    return Failed(
        id=request.address.id,
        attempt=report.attempt,
        kind=cast(FailureKind, report.kind),
        message=report.message,
        again=report.again,
        usage=report.usage,
    )


def report_of(plan: Plan, state: State, work: str, report: CompletionReport) -> Report:
    """The report as the platform's own report."""
    outcome = cast(Outcome, report.kind) if report.kind in _WITHOUT_FAILURE and report.kind else "answered"
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
