"""Timelines of attempts: a page with one lane per function that ran and one per slot of a resource, and a trace for
Chrome and Perfetto."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from coordinator.drive.attempt_record import AttemptRecord
from functions.encoding import to_json
from marless.views.action_lanes import ActionBar, action_bars, lanes_of, waiting_spans

# Colours that are told apart in print and by the colour-blind (Okabe & Ito, "Color Universal Design", 2008).
_COLOURS = {
    "sample": "#0072b2", "learn": "#d55e00", "evaluate": "#009e73", "whole": "#cc79a7", "describe": "#56b4e9",
    "initialise": "#e69f00", "grad": "#882255",
}  # fmt: skip
_OTHER, _START_UP, _WAITING, _COORDINATOR = "#999999", "#f0e442", "#dddddd", "#000000"
# Of resources, in the order of their names: none is a task's.
_RESOURCES = ("#332288", "#aa4499", "#117733", "#88ccee", "#ddcc77", "#44aa99")
_WIDTH, _LEFT, _RIGHT, _LANE, _HEAD = 1200.0, 110.0, 30.0, 16.0, 56.0
_LONGEST_NAME = 16
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


class _Canvas:
    """Rectangles on lanes; of the picture's width, `length_s` seconds from `since` on."""

    def __init__(self, since: float, length_s: float) -> None:
        self._since, self.scale = since, (_WIDTH - _LEFT - _RIGHT) / max(length_s, 1e-9)
        self.shapes: list[str] = []
        self.lanes = 0
        """How many lanes below the coordinator's, whose number is -1, are drawn."""
        self.names = {-1: "coordinator"}
        """Of lanes where a group of them begins."""

    def group(self, name: str, lanes: int, most: int) -> int:
        """Adds lanes, at most so many, below those that are there; returns how many."""
        self.names[self.lanes] = name
        self.lanes += (room := max(0, min(lanes, most)))
        return room

    def rectangle(self, lane: int, start: float, end: float, colour: str, text: str, share: float = 1.0) -> None:
        """Adds a rectangle over the lower `share` of a lane."""
        x, width = _LEFT + (start - self._since) * self.scale, max(0.3, (end - start) * self.scale)
        height = (_LANE - 3) * share
        y = _HEAD + (lane + 2) * _LANE - 3 - height
        self.shapes.append(
            f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{colour}">'
            f"<title>{escape(text)}</title></rect>"
        )


def _timeline(heading: str, records: Sequence[AttemptRecord], length: float) -> str:
    """The part of the page about one run, whose picture is `length` seconds wide."""
    laid_out, actions = bars(records), action_bars(records)
    canvas = _Canvas(min(record.asked_at for record in records), length)
    for start, end in coordinator_spans(records):
        canvas.rectangle(-1, start, end, _COORDINATOR, f"coordinator {_ms(end - start)}")
    _draw_functions(canvas, laid_out)
    _draw_actions(canvas, actions)
    hidden = 1 + max(bar.lane for bar in laid_out) + sum(lanes_of(actions).values()) - canvas.lanes
    return f"<h2>{escape(heading)}</h2>{_summary(records, laid_out, actions, hidden)}" + _picture(
        heading, canvas, _axis(length, canvas.scale, canvas.lanes)
    )


def _draw_functions(canvas: _Canvas, laid_out: Sequence[Bar]) -> None:
    """A lane per function that ran; what it waited for answers is paler."""
    lanes = canvas.group("functions", 1 + max(bar.lane for bar in laid_out), MOST_LANES)
    for bar in (bar for bar in laid_out if bar.lane < lanes):
        record, text = bar.record, _text(bar)
        if record.init_ms:
            start_up = f"start-up of the {record.function}, {_ms(record.init_ms / 1000)}"
            canvas.rectangle(bar.lane, bar.start, bar.ready, _START_UP, start_up)
        canvas.rectangle(bar.lane, bar.ready, record.ended_at, _colour(record), text)
        for begin, end in waiting_spans(record):
            canvas.rectangle(bar.lane, begin, end, _WAITING, f"waited {_ms(end - begin)} for answers", share=0.6)


def _draw_actions(canvas: _Canvas, actions: Mapping[str, Sequence[ActionBar]]) -> None:
    """A lane per slot of each resource."""
    left = MOST_LANES
    for name, lanes in lanes_of(actions).items():
        first, room = canvas.lanes, canvas.group(name, lanes, left) if left else 0
        left -= room
        for each in (each for each in actions[name] if each.lane < room):
            colour = _resource_colour(actions, name)
            canvas.rectangle(first + each.lane, each.begun_at, each.ended_at, colour, _action_text(each))


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
    for process, (name, each) in enumerate(action_bars(records).items(), start=1):
        events.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}})
        events += [
            event(
                name, action.lane, action.begun_at, action.ended_at, work=action.record.work,
                waited_s=round(action.begun_at - action.asked_at, 6),
            ) | {"pid": process}
            for action in each
        ]  # fmt: skip
    return to_json({"traceEvents": events, "displayTimeUnit": "ms"})


def _colour(record: AttemptRecord) -> str:
    return _COLOURS.get(record.kind.split(":")[0], _OTHER)


def _text(bar: Bar) -> str:
    record = bar.record
    parts = [f"round {record.round + 1} {record.work}", f"waited {_ms(bar.start - record.asked_at)}"]
    if record.init_ms:
        parts.append(f"start-up {_ms(record.init_ms / 1000)}")
    return ", ".join([*parts, f"worked {_ms(record.duration_ms / 1000)}", record.outcome])


def _action_text(bar: ActionBar) -> str:
    record = bar.record
    asker = f"{bar.resource} for round {record.round + 1} {record.work}"
    return f"{asker}, waited {_ms(bar.begun_at - bar.asked_at)}, worked {_ms(bar.ended_at - bar.begun_at)}"


def _resource_colour(actions: Iterable[str], name: str) -> str:
    return _RESOURCES[list(actions).index(name) % len(_RESOURCES)]


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


def _summary(
    records: Sequence[AttemptRecord],
    laid_out: Sequence[Bar],
    actions: Mapping[str, Sequence[ActionBar]],
    hidden: int,
) -> str:
    """What the seconds of all attempts and actions were, by kind."""
    seconds_by_kind: dict[str, float] = {
        "coordinator alone": sum(end - start for start, end in coordinator_spans(records))
    }
    for bar in laid_out:
        kind = bar.record.kind.split(":")[0]
        seconds_by_kind[kind] = seconds_by_kind.get(kind, 0.0) + bar.record.duration_ms / 1000
        seconds_by_kind["start-up"] = seconds_by_kind.get("start-up", 0.0) + bar.record.init_ms / 1000
        seconds_by_kind["waiting"] = seconds_by_kind.get("waiting", 0.0) + bar.start - bar.record.asked_at
    colours = {**_COLOURS, "coordinator alone": _COORDINATOR, "start-up": _START_UP, "waiting": _WAITING}
    if actions:
        waits = (end - begin for record in records for begin, end in waiting_spans(record))
        seconds_by_kind["waiting for answers, in functions"] = sum(waits)
        colours["waiting for answers, in functions"] = _WAITING
    for name, each in actions.items():
        seconds_by_kind[f"{name}, {len(each):,} actions"] = sum(bar.ended_at - bar.begun_at for bar in each)
        colours[f"{name}, {len(each):,} actions"] = _resource_colour(actions, name)
    items = [
        f'<li><span style="background:{colours.get(name, _OTHER)}"></span>{escape(name)}: {_ms(seconds)}</li>'
        for name, seconds in seconds_by_kind.items()
        if seconds > 0
    ]
    note = f"<p>{hidden:,} further lanes are not drawn.</p>" if hidden > 0 else ""
    return f"<ul>{''.join(items)}</ul>{note}"


def _picture(heading: str, canvas: _Canvas, axis: Sequence[str]) -> str:
    height = _HEAD + (canvas.lanes + 2) * _LANE
    names = (
        f'<text x="4" y="{_HEAD + 11 + (lane + 1) * _LANE}">{escape(_shortened(name))}</text>'
        for lane, name in canvas.names.items()
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" width="100%" role="img" aria-label="{escape(heading)}">'
        f"{''.join(names)}{''.join(canvas.shapes)}{''.join(axis)}</svg>"
    )


def _shortened(name: str) -> str:
    """A name that fits beside the lanes."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _document(title: str, body: str) -> str:
    style = (
        "body{font:14px sans-serif;margin:24px}svg text{font:11px sans-serif}ul{list-style:none;padding:0}"
        "li,li span{display:inline-block}li{margin-right:18px}li span{width:12px;height:12px;margin-right:6px}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )
