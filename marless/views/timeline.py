"""Attempts on lanes, one per function that ran, and a trace for Chrome and Perfetto."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.functions.encoding import to_json
from marless.views.call_lanes import call_bars


@dataclass(frozen=True)
class Bar:
    """An attempt on its lane, in seconds: waiting from `asked_at`, starting up from `start`, working from `ready`."""

    record: AttemptRecord
    lane: int
    start: float
    ready: float


def bars(records: Sequence[AttemptRecord]) -> list[Bar]:
    """Each attempt on the first lane that is free when it begins. Time outside of work and start-up counts as waiting,
    for a slot or for messages."""
    laid_out: list[Bar] = []
    free: list[float] = []
    for record in sorted(records, key=lambda each: each.ended_at - (each.init_ms + each.duration_ms) / 1000):
        ready = record.ended_at - record.duration_ms / 1000
        start = max(record.asked_at, ready - record.init_ms / 1000)
        lane = next((lane for lane, until in enumerate(free) if until <= start), len(free))
        if lane == len(free):
            free.append(0.0)
        free[lane] = record.ended_at
        laid_out.append(Bar(record, lane, start, max(record.asked_at, ready)))
    return laid_out


def coordinator_spans(records: Sequence[AttemptRecord]) -> list[tuple[float, float]]:
    """From when the last attempt in flight had ended to when the next was asked for: only the coordinator was busy."""
    spans: list[tuple[float, float]] = []
    until = None
    for record in sorted(records, key=lambda each: each.asked_at):
        if until is not None and record.asked_at > until:
            spans.append((until, record.asked_at))
        until = record.ended_at if until is None else max(until, record.ended_at)
    return spans


def length_s(records: Sequence[AttemptRecord]) -> float:
    """Seconds from the first request to the last report."""
    return max(record.ended_at for record in records) - min(record.asked_at for record in records)


def chrome_trace(records: Sequence[AttemptRecord]) -> bytes:
    """The attempts in the trace event format (complete events, in microseconds), for chrome://tracing and Perfetto."""
    since = min(record.asked_at for record in records)

    def event(name: str, lane: int, start: float, end: float, **args: Any) -> dict[str, Any]:
        ts, dur = round((start - since) * 1e6), round((end - start) * 1e6)
        return {"name": name, "ph": "X", "pid": 0, "tid": lane, "ts": ts, "dur": dur, "args": args}

    events = [event("coordinator", 0, start, end) for start, end in coordinator_spans(records)]
    for bar in bars(records):
        record, lane = bar.record, bar.lane + 1
        if record.init_ms:
            events.append(event("start-up", lane, bar.start, bar.ready, function=record.function))
        waiting_s = round(bar.start - record.asked_at, 6)
        events.append(
            event(
                record.work, lane, bar.ready, record.ended_at, round=record.round + 1, attempt=record.attempt,
                outcome=record.outcome, waited_s=waiting_s,
            )
        )  # fmt: skip
    for process, (name, each) in enumerate(call_bars(records).items(), start=1):
        events.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}})
        events += [
            event(
                name, action.lane, action.begun_at, action.ended_at, work=action.record.work,
                waited_s=round(action.begun_at - action.asked_at, 6),
            ) | {"pid": process}
            for action in each
        ]  # fmt: skip
    return to_json({"traceEvents": events, "displayTimeUnit": "ms"})
