"""The learning curve of a run as a picture: return against environment steps, with its cost along the top.

matplotlib comes with the extra 'report' and is imported when a curve is drawn.
"""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from marless.reports.plot_style import quiet, save, sheet
from marless.reports.statistics import FinalReturn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SAMPLED = "#9ab8d6"
_GREEDY = "#1f4e79"
# Of a side: while training, and evaluated.
_SIDES = (("#9ab8d6", "#1f4e79"), ("#e0b08a", "#a4490c"), ("#a9cfa4", "#2b6a2b"), ("#c9b3d9", "#5a3577"))
_TOP_TICKS = 6


class CurvePoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The run after one round: its use so far, and its returns.

    `steps` (environment steps), `seconds` and `dollars` count from the start of the run. `sampled_return` is the mean
    return of the episodes that ended in the round, if any. `evaluation` is the greedy evaluation at this point, if any.
    Returns are undiscounted sums over agents. Where some compete, `sampled_sides` and `evaluated_sides` are the means
    of each side by name, which are drawn instead of sums.
    """

    steps: int
    seconds: float
    dollars: float
    sampled_return: float | None = None
    evaluation: FinalReturn | None = None
    sampled_sides: dict[str, float] = {}
    evaluated_sides: dict[str, float] = {}


def draw(points: Sequence[CurvePoint], path: Path, title: str, name: str = "") -> None:
    """Write the picture of `figure`, with its errors, as a PNG of 800 x 500 pixels, whole or not at all."""
    save(figure(points, title, name), path)


def figure(points: Sequence[CurvePoint], title: str, name: str = "") -> "Figure":
    """Return the curve of `points`, ascending in steps. The run's `name` is small at the right.

    Raises `MissingExtra` if matplotlib is missing, and `ValueError` for empty `points`.
    """
    if not points:
        raise ValueError("a learning curve needs at least one round")
    sheet_ = sheet(8, 5)
    axes = sheet_.add_subplot()
    if any(point.sampled_sides or point.evaluated_sides for point in points):
        _draw_sides(axes, points)
    else:
        _draw_returns(axes, points)
    _label(axes, points, title, name)
    _draw_expense(axes, points)
    return sheet_


def _draw_returns(axes: "Axes", points: Sequence[CurvePoint]) -> None:
    training_points = [(point.steps, point.sampled_return) for point in points if point.sampled_return is not None]
    if training_points:
        # A line through one point is invisible, a dot is not.
        style = "-" if len(training_points) > 1 else "o"
        label = "while training (sampled actions): mean of each round"
        axes.plot(*zip(*training_points, strict=True), style, color=_SAMPLED, linewidth=1.5, label=label)
    evaluation_points = [(point.steps, point.evaluation) for point in points if point.evaluation is not None]
    if not evaluation_points:
        return
    steps = [at for at, _ in evaluation_points]
    means = [evaluation.mean for _, evaluation in evaluation_points]
    intervals = [evaluation.ci95 or (evaluation.mean, evaluation.mean) for _, evaluation in evaluation_points]
    lows, highs = zip(*intervals, strict=True)
    axes.fill_between(steps, lows, highs, color=_GREEDY, alpha=0.15, linewidth=0)
    axes.plot(steps, means, "o-", color=_GREEDY, markersize=5, label="evaluation: mean and 95 % interval", linewidth=1)


def _draw_sides(axes: "Axes", points: Sequence[CurvePoint]) -> None:
    names = dict.fromkeys(name for point in points for name in (*point.sampled_sides, *point.evaluated_sides))
    for name, (light, dark) in zip(names, cycle(_SIDES), strict=False):
        training_points = [(point.steps, point.sampled_sides[name]) for point in points if name in point.sampled_sides]
        if training_points:
            style = "-" if len(training_points) > 1 else "o"
            axes.plot(
                *zip(*training_points, strict=True), style, color=light, linewidth=1.5, label=f"{name}, while training"
            )
        evaluation_points = [
            (point.steps, point.evaluated_sides[name]) for point in points if name in point.evaluated_sides
        ]
        if evaluation_points:
            label = f"{name}, evaluation"
            axes.plot(*zip(*evaluation_points, strict=True), "o-", color=dark, markersize=5, linewidth=1, label=label)


def _label(axes: "Axes", points: Sequence[CurvePoint], title: str, name: str) -> None:
    # The title is the user's text, so a dollar sign in it must not start a formula.
    axes.set_title(title, parse_math=False, loc="left", fontweight="bold", pad=12)
    axes.set_title(name, parse_math=False, loc="right", fontsize=8, color="dimgray", pad=12)
    axes.set_xlabel("environment steps")
    over = "a side's agents" if any(point.sampled_sides for point in points) else "agents"
    axes.set_ylabel(f"return per episode (sum over {over}, undiscounted)")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlim(0, max(1, points[-1].steps) * 1.02)
    quiet(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", frameon=False, fontsize=9)


def _draw_expense(axes: "Axes", points: Sequence[CurvePoint]) -> None:
    ticks = [tick for tick in axes.get_xticks() if 0 <= tick <= points[-1].steps]
    ticks = ticks[:: -(-len(ticks) // _TOP_TICKS)]
    done = [0, *(point.steps for point in points)]
    dollars = np.interp(ticks, done, [0.0, *(point.dollars for point in points)])
    seconds = np.interp(ticks, done, [0.0, *(point.seconds for point in points)])
    top = axes.secondary_xaxis("top")
    labels = [f"{_money(cost)}\n{_time(took)}" for cost, took in zip(dollars, seconds, strict=True)]
    top.set_xticks(ticks, labels, parse_math=False, fontsize=8, color="dimgray")
    total = f"spent by then (in all {_money(points[-1].dollars)} and {_time(points[-1].seconds)})"
    top.set_xlabel(total, parse_math=False, fontsize=8, color="dimgray")
    top.spines["top"].set_visible(False)
    top.tick_params(length=0)


def _money(dollars: float) -> str:
    # Two significant digits and never an exponent: ``$0.000032``.
    return "$" + np.format_float_positional(dollars, precision=2, fractional=False, trim="-")


def _time(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 or seconds == 0 else f"{seconds:.1f} s"
