"""The page of a timeline: one lane per function that ran and one per slot of a resource."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.page import axis_numbers
from marless.page.chart import marks_along
from marless.page.document import document
from marless.page.markup import Html, element, html, join
from marless.views.call_lanes import CallBar, call_bars, lanes_of, waiting_spans
from marless.views.timeline import Bar, bars, coordinator_spans, length_s

# Colours that differ in print and for the colour-blind (Okabe & Ito, "Color Universal Design", 2008).
_COLOURS = {
    "sample": "#0072b2", "learn": "#d55e00", "evaluate": "#009e73", "whole": "#cc79a7", "describe": "#56b4e9",
    "initialise": "#e69f00", "grad": "#882255", "coordinator alone": "var(--ink)", "start-up": "#f0e442",
    "waiting": "var(--line)", "waiting for answers, in functions": "var(--line)",
}  # fmt: skip
_OTHER = "#999999"
# Colours of resources, in the order of their names: no task has one of these.
_RESOURCES = ("#332288", "#aa4499", "#117733", "#88ccee", "#ddcc77", "#44aa99")
_WIDTH, _LEFT, _RIGHT, _LANE, _HEAD = 1200.0, 110.0, 30.0, 16.0, 30.0
_LONGEST_NAME = 16
# Further lanes are left out: a reader cannot tell them apart, and pages of megabytes open slowly.
MOST_LANES = 200


def page(title: str, runs: Mapping[str, Sequence[AttemptRecord]]) -> str:
    """A page without scripts or links: a picture of each run by its heading, and the meaning of the colours.

    A second has the same length in all pictures.
    """
    longest_s = max(map(length_s, runs.values()))
    sections = (_timeline(heading, records, longest_s) for heading, records in runs.items())
    return document(title, join([element("h1", title), *sections]))


class _Canvas:
    """Rectangles on lanes. The picture's width is `length_s` seconds from `since` on."""

    def __init__(self, since: float, length_s: float) -> None:
        self._since, self._length_s = since, length_s
        self.shapes: list[Html] = []
        self.lanes = 0
        """Number of lanes below the coordinator's lane, which has the number -1."""

    def across(self, seconds: float) -> float:
        """The horizontal position of a time after `since`."""
        return _LEFT + seconds * (_WIDTH - _LEFT - _RIGHT) / max(self._length_s, 1e-9)

    def group(self, name: str, lanes: int, most: int) -> int:
        """Add lanes, up to `most`, and their name. Return their number."""
        self.name(name, self.lanes)
        self.lanes += (room := max(0, min(lanes, most)))
        return room

    def name(self, name: str, lane: int) -> None:
        """Write the name in front of a lane."""
        short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        self.shapes.append(element("text", short, x=4, y=f"{_HEAD + 11 + (lane + 1) * _LANE:g}"))

    def rectangle(self, lane: int, start: float, end: float, colour: str, text: str, share: float = 1.0) -> None:
        """Add a rectangle over the lower `share` of a lane."""
        x, until = self.across(start - self._since), self.across(end - self._since)
        height = (_LANE - 3) * share
        y = _HEAD + (lane + 2) * _LANE - 3 - height
        self.shapes.append(
            Html(
                f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(0.3, until - x):.2f}" height="{height:.1f}"'
                f' fill="{colour}">{element("title", text)}</rect>'
            )
        )

    def picture(self, heading: str) -> Html:
        """The lanes below an axis of seconds."""
        bottom = _HEAD + (self.lanes + 1) * _LANE
        places = axis_numbers.ticks(0.0, self._length_s, most=10)
        labels = [f"{label} s" for label in axis_numbers.labels(places)]
        rules = "".join(f"M{self.across(place):.1f} {_HEAD - 6:g}V{bottom:g}" for place in places)
        axis = [marks_along(places, labels, self.across, _HEAD - 27), Html(f'<path class="rule" d="{rules}"/>')]
        box = f'viewBox="0 0 {_WIDTH:g} {bottom + _LANE:g}"'
        content = join([*self.shapes, *axis])
        return Html(f'<svg class="chart" {box} role="img" aria-label="{html(heading)}">{content}</svg>')


def _timeline(heading: str, records: Sequence[AttemptRecord], length: float) -> Html:
    laid_out, actions = bars(records), call_bars(records)
    canvas = _Canvas(min(record.asked_at for record in records), length)
    canvas.name("coordinator", -1)
    for start, end in coordinator_spans(records):
        canvas.rectangle(-1, start, end, _COLOURS["coordinator alone"], f"coordinator {_ms(end - start)}")
    _draw_functions(canvas, laid_out)
    _draw_actions(canvas, actions)
    hidden = 1 + max(bar.lane for bar in laid_out) + sum(lanes_of(actions).values()) - canvas.lanes
    note = element("p", f"{hidden:,} further lanes are not drawn.") if hidden > 0 else ""
    return join([element("h2", heading), _legend(records, laid_out, actions), note, canvas.picture(heading)])


def _draw_functions(canvas: _Canvas, laid_out: Sequence[Bar]) -> None:
    lanes = canvas.group("functions", 1 + max(bar.lane for bar in laid_out), MOST_LANES)
    for bar in (bar for bar in laid_out if bar.lane < lanes):
        record, text = bar.record, _text(bar)
        if record.init_ms:
            start_up = f"start-up of the {record.function}, {_ms(record.init_ms / 1000)}"
            canvas.rectangle(bar.lane, bar.start, bar.ready, _COLOURS["start-up"], start_up)
        canvas.rectangle(bar.lane, bar.ready, record.ended_at, _COLOURS.get(record.kind.split(":")[0], _OTHER), text)
        for begin, end in waiting_spans(record):
            waited = f"waited {_ms(end - begin)} for answers"
            canvas.rectangle(bar.lane, begin, end, _COLOURS["waiting"], waited, share=0.6)


def _draw_actions(canvas: _Canvas, actions: Mapping[str, Sequence[CallBar]]) -> None:
    left = MOST_LANES
    for name, lanes in lanes_of(actions).items():
        first, room = canvas.lanes, canvas.group(name, lanes, left) if left else 0
        left -= room
        for bar in (bar for bar in actions[name] if bar.lane < room):
            colour = _resource_colour(actions, name)
            canvas.rectangle(first + bar.lane, bar.begun_at, bar.ended_at, colour, _action_text(bar))


def _legend(
    records: Sequence[AttemptRecord], laid_out: Sequence[Bar], actions: Mapping[str, Sequence[CallBar]]
) -> Html:
    sums = defaultdict[str, float](float)
    sums["coordinator alone"] = sum(end - start for start, end in coordinator_spans(records))
    for bar in laid_out:
        sums[bar.record.kind.split(":")[0]] += bar.record.duration_ms / 1000
        sums["start-up"] += bar.record.init_ms / 1000
        sums["waiting"] += bar.start - bar.record.asked_at
    if actions:
        waits = (end - begin for record in records for begin, end in waiting_spans(record))
        sums["waiting for answers, in functions"] = sum(waits)
    rows = [(_COLOURS.get(name, _OTHER), name, total) for name, total in sums.items()]
    for name, calls in actions.items():
        total = sum(bar.ended_at - bar.begun_at for bar in calls)
        rows.append((_resource_colour(actions, name), f"{name}, {len(calls):,} actions", total))
    items = (
        element("li", element("i", class_="key", style=f"--c:{colour}"), f"{name}: {_ms(total)}")
        for colour, name, total in rows
        if total > 0
    )
    return element("ul", *items, class_="legend")


def _text(bar: Bar) -> str:
    record = bar.record
    parts = [f"round {record.round + 1} {record.work}", f"waited {_ms(bar.start - record.asked_at)}"]
    if record.init_ms:
        parts.append(f"start-up {_ms(record.init_ms / 1000)}")
    return ", ".join([*parts, f"worked {_ms(record.duration_ms / 1000)}", record.outcome])


def _action_text(bar: CallBar) -> str:
    asker = f"{bar.resource} for round {bar.record.round + 1} {bar.record.work}"
    return f"{asker}, waited {_ms(bar.begun_at - bar.asked_at)}, worked {_ms(bar.ended_at - bar.begun_at)}"


def _resource_colour(actions: Iterable[str], name: str) -> str:
    return _RESOURCES[list(actions).index(name) % len(_RESOURCES)]


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"
