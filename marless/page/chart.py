"""Line charts as SVG: curves with bands and dots over an axis."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from marless.page import axis_numbers
from marless.page.downsampling import largest_triangles
from marless.page.markup import Html, element, html, join

AXIS_NAMES = {"steps": "environment steps", "seconds": "seconds of training", "dollars": "dollars", "round": "round"}
# Colours of the page's style sheet. Later lines take them again, dashed.
COLOURS = 8
# More dots than these are a line anyway.
_DOTS = 60


@dataclass(frozen=True)
class ChartLine:
    """A curve. `x` ascends. `low` and `high` bound its band, if it has one.

    `faint` lines are drawn behind others of their colour. `steps` hold each value until the next point.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    colour: int = 0
    faint: bool = False
    dots: bool = False
    steps: bool = False


@dataclass(frozen=True)
class Size:
    """The drawing's units, which the page scales, and the most points of a line."""

    width: int = 460
    height: int = 220
    points: int = 240


@dataclass(frozen=True)
class PlotFrame:
    """The frame of a chart's values: ranges of x and y, and the corners that they are drawn between."""

    x: tuple[float, float]
    y: tuple[float, float]
    left: float
    right: float
    top: float
    bottom: float

    def across(self, value: float) -> float:
        """The horizontal position of a value."""
        return self.left + (value - self.x[0]) / (self.x[1] - self.x[0]) * (self.right - self.left)

    def up(self, value: float) -> float:
        """The vertical position of a value. Larger values are higher, at smaller numbers."""
        return self.bottom - (value - self.y[0]) / (self.y[1] - self.y[0]) * (self.bottom - self.top)


def chart(title: str, lines: Sequence[ChartLine], axis: str, size: Size) -> Html:
    """The chart of these lines, with their places in units of `axis`. At least one line has a point."""
    thin = [_downsample(line, size.points) for line in map(_finite, lines) if len(line.x)]
    frame = frame_of(thin, size)
    shapes = [*(_band(line, frame) for line in thin if len(line.low)), *(_line(line, frame) for line in thin)]
    dots = [_dots(line, frame, axis) for line in thin if line.dots and len(line.x) <= _DOTS]
    counts = all(line.steps for line in thin)
    content = join([element("title", title), _axes(frame, axis, counts), *shapes, *dots])
    box = f"{frame.left:g} {frame.top:g} {frame.right:g} {frame.bottom:g}"
    ranges = " ".join(f"{value:.9g}" for value in (*frame.x, *frame.y))
    start = f'<svg class="chart" viewBox="0 0 {size.width} {size.height}" role="img" data-box="{box}"'
    return Html(f'{start} data-range="{ranges}" data-axis="{html(axis)}">{content}</svg>')


def figure(title: str, note: str, lines: Sequence[ChartLine], axis: str, size: Size) -> Html:
    """A chart with its title, its axis and its legend, or '' if nothing is to be drawn."""
    if not any(len(_finite(line).x) for line in lines):
        return Html("")
    caption = element("figcaption", element("b", title), " ", element("span", note))
    below = element("div", AXIS_NAMES.get(axis, axis), class_="axis-name")
    return element("figure", caption, chart(title, lines, axis, size), below, legend(lines, title))


def legend(lines: Sequence[ChartLine], title: str) -> Html:
    """Colours and names, empty for a single line that has the name of the chart."""
    visible_lines = [line for line in lines if len(line.x)]
    if [line.name for line in visible_lines] == [title]:
        return Html("")
    items = (element("li", element("i", class_=f"key {_style(line)}"), line.name) for line in visible_lines)
    return element("ul", *items, class_="legend")


def frame_of(lines: Sequence[ChartLine], size: Size) -> PlotFrame:
    """The frame that holds all values. x begins at 0 if all values are positive."""
    xs = [value for line in lines for value in line.x]
    ys = [value for line in lines for values in (line.y, line.low, line.high) for value in values]
    low, high = min(ys), max(ys)
    room = 0.05 * (high - low) or 0.1 * abs(high) or 1.0
    first, last = min(0.0, *xs), max(xs)
    return PlotFrame(
        x=(first, last if last > first else first + 1.0),
        y=(low - room, high + room),
        left=56,
        right=size.width - 14,
        top=8,
        bottom=size.height - 24,
    )


def points(line: ChartLine, frame: PlotFrame) -> str:
    """The attribute `points` of a polyline: ``56,8 251,102``."""
    pairs = list(zip(line.x, line.y, strict=True))
    if line.steps:
        pairs = [
            corner for this, after in zip(pairs, [*pairs[1:], pairs[-1]], strict=True) for corner in _step(this, after)
        ]
    return _points(pairs, frame)


def _step(this: tuple[float, float], after: tuple[float, float]) -> list[tuple[float, float]]:
    return [this] if this[1] == after[1] else [this, (after[0], this[1])]


def _points(pairs: Sequence[tuple[float, float]], frame: PlotFrame) -> str:
    return " ".join(f"{_short(frame.across(x))},{_short(frame.up(y))}" for x, y in pairs)


def _short(position: float) -> str:
    return f"{position:.1f}".removesuffix(".0")


def _finite(line: ChartLine) -> ChartLine:
    # A diverging run has values that are no numbers.
    every = (line.x, line.y, line.low, line.high)
    rows = [row for row in range(len(line.x)) if all(math.isfinite(values[row]) for values in every if len(values))]
    return line if len(rows) == len(line.x) else _rows(line, rows)


def _downsample(line: ChartLine, most: int) -> ChartLine:
    return line if len(line.x) <= most else _rows(line, largest_triangles(line.x, line.y, most).tolist())


def _rows(line: ChartLine, rows: Sequence[int]) -> ChartLine:
    def of(values: Sequence[float]) -> list[float]:
        return [values[row] for row in rows] if len(values) else []

    return ChartLine(
        line.name, of(line.x), of(line.y), of(line.low), of(line.high), line.colour, line.faint, line.dots, line.steps
    )


def _style(line: ChartLine) -> str:
    dash_class = " dashed" if line.colour >= COLOURS else ""
    return f"c{line.colour % COLOURS}{dash_class}{' faint' if line.faint else ''}"


def _band(line: ChartLine, frame: PlotFrame) -> Html:
    upper = list(zip(line.x, line.high, strict=True))
    lower = list(zip(line.x, line.low, strict=True))[::-1]
    return Html(f'<polygon class="band {_style(line)}" points="{_points([*upper, *lower], frame)}"/>')


def _line(line: ChartLine, frame: PlotFrame) -> Html:
    # A line through one point is invisible, so it becomes a dot.
    if len(line.x) == 1:
        at = f'cx="{_short(frame.across(line.x[0]))}" cy="{_short(frame.up(line.y[0]))}"'
        return Html(f'<circle class="{_style(line)}" r="3" {at}>{element("title", line.name)}</circle>')
    return Html(
        f'<polyline class="{_style(line)}" data-name="{html(line.name)}" points="{points(line, frame)}">'
        f"{element('title', line.name)}</polyline>"
    )


def _dots(line: ChartLine, frame: PlotFrame, axis: str) -> Html:
    ends = list(zip(line.low, line.high, strict=True)) if len(line.low) else [None] * len(line.x)
    return join(
        Html(
            f'<circle class="{_style(line)}" r="2.6" cx="{_short(frame.across(x))}" cy="{_short(frame.up(y))}">'
            + element("title", f"{line.name}, {axis_numbers.amount(x, axis)}: {axis_numbers.interval(y, end)}")
            + "</circle>"
        )
        for x, y, end in zip(line.x, line.y, ends, strict=True)
    )


def _axes(frame: PlotFrame, axis: str, counts: bool) -> Html:
    """Horizontal rules at round values of y, and round values along x. `counts` and rounds have whole numbers."""
    up, along = axis_numbers.ticks(*frame.y, whole=counts), axis_numbers.ticks(*frame.x, whole=axis == "round")
    return join(
        [
            _grid_lines(up, axis_numbers.labels(up), frame),
            marks_along(along, axis_numbers.labels(along, dollars=axis == "dollars"), frame.across, frame.bottom),
        ]
    )


def _grid_lines(at: Sequence[float], labels: Sequence[str], frame: PlotFrame) -> Html:
    return join(
        Html(
            f'<path class="rule" d="M{frame.left:g} {frame.up(value):.1f}H{frame.right:g}"/>'
            f'<text class="end" x="{frame.left - 6:g}" y="{frame.up(value) + 4:.1f}">{html(label)}</text>'
        )
        for value, label in zip(at, labels, strict=True)
    )


def marks_along(at: Sequence[float], labels: Sequence[str], across: Callable[[float], float], bottom: float) -> Html:
    """The labels of a horizontal axis, centred at their places."""
    return join(
        Html(f'<text class="middle" x="{across(value):.1f}" y="{bottom + 17:g}">{html(label)}</text>')
        for value, label in zip(at, labels, strict=True)
    )
