"""The curves: greedy return against environment steps, and the results of each side or battle."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.conformance.cases import REFERENCE
from benchmarks.conformance.outcomes import Outcome
from benchmarks.conformance.record import Record
from benchmarks.conformance.tables import bounds_of, picture
from marless.ablation.ablation_plots import mean_line
from marless.functions.errors import MissingExtra
from marless.reports.plot_style import FloatArray, PlotLine, draw_lines, finish, look, save, sheet
from marless.reports.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEPS = "environment steps"
_RETURN = "return (greedy, sum over agents)"
# Early returns are far below the others, so the scale leaves them out.
_BEGINNING = 0.1

Curve = tuple[FloatArray, FloatArray]


def draw(found: Sequence[Outcome], folder: Path) -> list[str]:
    """Draw a picture of every task of every protocol that has records. Returns their names, or an empty list if
    matplotlib is missing."""
    names = []
    for protocol, task in dict.fromkeys((outcome.protocol, outcome.case.task) for outcome in found):
        outcomes = [
            outcome
            for outcome in found
            if (outcome.protocol, outcome.case.task) == (protocol, task)
            and outcome.finished
            and outcome.case.treatment != REFERENCE
        ]
        if not outcomes:
            continue
        name = picture(task, protocol)
        try:
            _task(outcomes, folder / name)
        except MissingExtra:
            return []
        names.append(name)
    return names


def _task(found: Sequence[Outcome], path: Path) -> None:
    """A panel of returns for each treatment, and one for each figure that was measured.

    Where sides compete the sum over them says nothing, so each side's own figures stand alone.
    """
    panels: list[tuple[str, str, Sequence[Outcome], Callable[[Record], Curve]]] = []
    for treatment in dict.fromkeys(outcome.case.treatment for outcome in found):
        alike = [outcome for outcome in found if outcome.case.treatment == treatment]
        title = f"{alike[0].case.task}, {treatment}"
        if any(outcome.case.measure != "sides" for outcome in alike):
            panels.append((title, _RETURN, alike, _returns))
        measured = (part for outcome in alike for made in outcome.finished for part in made.measured)
        for name in dict.fromkeys(name for part in measured for name in part.figures):
            panels.append((title, name, alike, _figure(name)))
    figure = sheet(9, 4.2 * len(panels))
    algorithms = list(dict.fromkeys(outcome.case.algorithm for outcome in found))
    column = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, (title, what, outcomes, of) in zip(column, panels, strict=True):
        lines = {outcome.case.algorithm: list(map(of, outcome.finished)) for outcome in outcomes}
        drawn = {name: curves for name, curves in lines.items() if all(len(x) for x, _ in curves)}
        _panel(axes, drawn, algorithms, bounds_of(what, outcomes[0].case))
        bars = sorted({outcome.case.bar for outcome in outcomes if outcome.case.bar is not None})
        for bar in bars if of is _returns else ():
            axes.axhline(bar, color="#909090", linewidth=0.8, linestyle=":")
        finish(axes, title, _about(outcomes, bool(bars) and of is _returns), _STEPS, what)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    save(figure, path)


def _about(found: Sequence[Outcome], bars: bool) -> str:
    least, most = (bound(len(outcome.finished) for outcome in found) for bound in (min, max))
    seeds = f"{most}" if least == most else f"{least} to {most}"
    about = f"mean over {seeds} seeds, band: 95 % interval" if most > 1 else "one seed"
    return about + ("; dotted: the bars" if bars else "")


def _panel(
    axes: "Axes", curves: Mapping[str, Sequence[Curve]], algorithms: Sequence[str], bounds: Interval | None
) -> None:
    """One colour for an algorithm in all panels of a picture, which has `algorithms`. Bands end at the `bounds`."""
    end = max((float(x[-1]) for runs in curves.values() for x, _ in runs), default=0.0)
    whole = {name: _within(mean_line(runs), bounds) for name, runs in curves.items()}
    late = {name: _after(line, _BEGINNING * end) for name, line in whole.items()}
    if not late:
        return
    draw_lines(axes, late, algorithms)
    for name, line in whole.items():
        colour, style = look(algorithms.index(name))
        early = line.x <= late[name].x[0]
        axes.plot(line.x[early], line.y[early], style, color=colour, linewidth=1.8)


def _within(line: PlotLine, bounds: Interval | None) -> PlotLine:
    return line if bounds is None else PlotLine(line.x, line.y, np.clip(line.low, *bounds), np.clip(line.high, *bounds))


def _after(line: PlotLine, least: float) -> PlotLine:
    """The line from `least` on, whole where it ends before."""
    kept = line.x >= least
    return PlotLine(line.x[kept], line.y[kept], line.low[kept], line.high[kept]) if kept.any() else line


def _returns(made: Record) -> Curve:
    return np.array([float(point.env_steps) for point in made.curve]), np.array([point.mean for point in made.curve])


def _figure(name: str) -> Callable[[Record], Curve]:
    def of(made: Record) -> Curve:
        parts = [part for part in made.measured if name in part.figures]
        return np.array([float(part.env_steps) for part in parts]), np.array([part.figures[name] for part in parts])

    return of
