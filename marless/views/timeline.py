"""Timelines of attempts: a page with one lane per function that ran, and a trace for Chrome and Perfetto."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from coordinator.drive.attempt_record import AttemptRecord
from functions.encoding import to_json

# Colours that are told apart in print and by the colour-blind (Okabe & Ito, "Color Universal Design", 2008).
_COLOURS = {
    "sample": "#0072b2", "learn": "#d55e00", "evaluate": "#009e73", "whole": "#cc79a7", "describe": "#56b4e9",
    "initialise": "#e69f00", "grad": "#882255",
}  # fmt: skip
_OTHER, _START_UP, _WAITING, _COORDINATOR = "#999999", "#f0e442", "#dddddd", "#000000"
_WIDTH, _LEFT, _LANE, _HEAD = 1200.0, 110.0, 16.0, 56.0
# Lanes beyond these are not drawn: nobody can tell them apart, and pages of megabytes open slowly.
MOST_LANES = 200


@dataclass(frozen=True)
class Bar:
    """An attempt on its lane, in seconds: waiting from `asked_at`, starting up from `start`, at work from `ready`."""

    record: AttemptRecord
    lane: int
    start: float
    ready: float


def bars(records: Sequence[AttemptRecord]) -> list[Bar]:
    """Each attempt on the first lane that is free when it begins. What it neither worked nor started up counts as
    waiting, for a slot or for its messages."""
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


def page(title: str, runs: Mapping[str, Sequence[AttemptRecord]]) -> str:
    """A page without scripts or links: the timeline of each run as SVG, by its heading, and what the colours mean.
    Seconds are as long in all of them."""
    longest_s = max(map(length_s, runs.values()))
    return _document(title, "".join(_timeline(heading, records, longest_s) for heading, records in runs.items()))


def _timeline(heading: str, records: Sequence[AttemptRecord], length: float) -> str:
    """The part of the page about one run, whose picture is `length` seconds wide."""
    laid_out, since = bars(records), min(record.asked_at for record in records)
    lanes = min(MOST_LANES, 1 + max(bar.lane for bar in laid_out))
    scale = (_WIDTH - _LEFT) / max(length, 1e-9)

    def rect(lane: int, start: float, end: float, colour: str, text: str) -> str:
        x, width = _LEFT + (start - since) * scale, max(0.3, (end - start) * scale)
        y = _HEAD + (lane + 1) * _LANE
        return (
            f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{_LANE - 3:.1f}" fill="{colour}">'
            f"<title>{escape(text)}</title></rect>"
        )

    rectangles = [
        rect(-1, start, end, _COORDINATOR, f"coordinator {_ms(end - start)}")
        for start, end in coordinator_spans(records)
    ]
    for bar in (bar for bar in laid_out if bar.lane < lanes):
        record, text = bar.record, _text(bar)
        if record.init_ms:
            start_up = f"start-up of the {record.function}, {_ms(record.init_ms / 1000)}"
            rectangles.append(rect(bar.lane, bar.start, bar.ready, _START_UP, start_up))
        rectangles.append(rect(bar.lane, bar.ready, record.ended_at, _colour(record), text))
    hidden = 1 + max(bar.lane for bar in laid_out) - lanes
    return f"<h2>{escape(heading)}</h2>{_summary(records, laid_out, hidden)}" + _picture(
        heading, lanes, rectangles + _axis(length, scale, lanes)
    )


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
    return to_json({"traceEvents": events, "displayTimeUnit": "ms"})


def _colour(record: AttemptRecord) -> str:
    return _COLOURS.get(record.kind.split(":")[0], _OTHER)


def _text(bar: Bar) -> str:
    record = bar.record
    parts = [f"round {record.round + 1} {record.work}", f"waited {_ms(bar.start - record.asked_at)}"]
    if record.init_ms:
        parts.append(f"start-up {_ms(record.init_ms / 1000)}")
    return ", ".join([*parts, f"worked {_ms(record.duration_ms / 1000)}", record.outcome])


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def _axis(length: float, scale: float, lanes: int) -> list[str]:
    """Ticks at round numbers of seconds, at most ten."""
    step = 10.0**-6
    while length / step > 10:
        step *= 2.5 if f"{step:e}"[0] == "2" else 2.0
    bottom, ticks = _HEAD + (lanes + 1) * _LANE, []
    for number in range(int(length / step) + 1):
        x = _LEFT + number * step * scale
        ticks.append(
            f'<line x1="{x:.1f}" y1="{_HEAD - 6}" x2="{x:.1f}" y2="{bottom:.0f}" stroke="#ccc" stroke-width="0.5"/>'
        )
        ticks.append(f'<text x="{x:.1f}" y="{_HEAD - 10}" text-anchor="middle">{number * step:g} s</text>')
    return ticks


def _summary(records: Sequence[AttemptRecord], laid_out: Sequence[Bar], hidden: int) -> str:
    """What the seconds of all attempts were, by kind."""
    seconds_by_kind: dict[str, float] = {
        "coordinator alone": sum(end - start for start, end in coordinator_spans(records))
    }
    for bar in laid_out:
        kind = bar.record.kind.split(":")[0]
        seconds_by_kind[kind] = seconds_by_kind.get(kind, 0.0) + bar.record.duration_ms / 1000
        seconds_by_kind["start-up"] = seconds_by_kind.get("start-up", 0.0) + bar.record.init_ms / 1000
        seconds_by_kind["waiting"] = seconds_by_kind.get("waiting", 0.0) + bar.start - bar.record.asked_at
    colours = {**_COLOURS, "coordinator alone": _COORDINATOR, "start-up": _START_UP, "waiting": _WAITING}
    items = [
        f'<li><span style="background:{colours.get(name, _OTHER)}"></span>{escape(name)}: {_ms(seconds)}</li>'
        for name, seconds in seconds_by_kind.items()
        if seconds > 0
    ]
    note = f"<p>{hidden:,} further lanes are not drawn.</p>" if hidden > 0 else ""
    return f"<ul>{''.join(items)}</ul>{note}"


def _picture(heading: str, lanes: int, shapes: Sequence[str]) -> str:
    height = _HEAD + (lanes + 2) * _LANE
    names = [
        f'<text x="4" y="{_HEAD + 11}">coordinator</text>',
        f'<text x="4" y="{_HEAD + 11 + _LANE}">functions</text>',
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" width="100%" role="img" aria-label="{escape(heading)}">'
        f"{''.join(names)}{''.join(shapes)}</svg>"
    )


def _document(title: str, body: str) -> str:
    style = (
        "body{font:14px sans-serif;margin:24px}svg text{font:11px sans-serif}ul{list-style:none;padding:0}"
        "li,li span{display:inline-block}li{margin-right:18px}li span{width:12px;height:12px;margin-right:6px}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )
