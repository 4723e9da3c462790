"""The pictures of a comparison: aggregates, sample efficiency and performance profiles."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marless.comparison.comparison import ArmRow, Comparison, CurveBands
from marless.comparison.crossplay_tournament import Tournament
from marless.comparison.run_evaluations import Axis
from marless.comparison.score_tables import amount, measured
from marless.reports.digits import Digits, digits_of
from marless.reports.evaluations import METRIC
from marless.reports.plot_style import PlotLine, draw_lines, finish, heading, look, quiet, save, sheet
from marless.reports.statistics import FEWEST_SEEDS
from marless.reports.text import counted, money

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_X: dict[Axis, str] = {"steps": "environment steps", "seconds": "seconds of training", "dollars": "dollars of training"}


def draw(comparison: Comparison, folder: Path) -> list[str]:
    """Draw all pictures and return the file names. Performance profiles need `FEWEST_SEEDS` seeds of each arm.

    Raises `MissingExtra` without matplotlib.
    """
    _aggregates(comparison, folder / "aggregates.png")
    save(curve(comparison), folder / "sample_efficiency.png")
    pictures = ["aggregates.png", "sample_efficiency.png"]
    if min(row.seeds for row in comparison.equal) >= FEWEST_SEEDS:
        _profile(comparison, folder / "profiles.png")
        pictures.append("profiles.png")
    return pictures


def _score(comparison: Comparison) -> str:
    of = "" if comparison.metric == METRIC else f" of {comparison.metric}"
    if comparison.normalised:
        return f"normalised score{of}"
    return f"{comparison.metric}{'' if of else ' (sum over agents)'}"


def _title(comparison: Comparison) -> str:
    tasks = comparison.tasks
    return tasks[0] if len(tasks) == 1 else counted(len(tasks), "task")


def _over(comparison: Comparison) -> str:
    fewest, most = (limit(row.seeds for row in comparison.equal) for limit in (min, max))
    seeds = counted(most, "seed") if fewest == most else f"{fewest} to {most} seeds"
    return f"{seeds}, bands: 95 % stratified bootstrap" if most > 1 else seeds


def _aggregates(comparison: Comparison, path: Path) -> None:
    rows = comparison.equal
    statistics = ["iqm", "mean", "median"] + ["optimality_gap"] * (rows[0].optimality_gap is not None)
    figure = sheet(2.2 + 2.6 * len(statistics), 1.9 + 0.4 * len(rows))
    columns = figure.subplots(1, len(statistics), sharey=True, squeeze=False)[0]
    titles = {"iqm": "IQM", "optimality_gap": "optimality gap"}
    for axes, statistic in zip(columns, statistics, strict=True):
        _intervals(axes, rows, statistic)
        axes.set_title(titles.get(statistic, statistic), fontsize=10)
        if comparison.metric == METRIC:
            axes.set_xlabel("lower is better" if statistic == "optimality_gap" else "higher is better", fontsize=8)
    columns[0].set_yticks(range(len(rows)), [row.arm for row in rows], parse_math=False)
    columns[0].set_ylim(len(rows) - 0.5, -0.5)
    where = amount(comparison.at, comparison.axis)
    heading(figure, f"{_title(comparison)}: {_score(comparison)} at {where}", _over(comparison))
    save(figure, path)


def _intervals(axes: "Axes", rows: Sequence[ArmRow], statistic: str) -> None:
    from matplotlib.ticker import MaxNLocator

    for position, row in enumerate(rows):
        estimate, (colour, _) = getattr(row, statistic), look(position)
        low, high = estimate.ci95 or (estimate.value, estimate.value)
        axes.plot([low, high], [position, position], color=colour, alpha=0.3, linewidth=9, solid_capstyle="butt")
        axes.plot([estimate.value], [position], "|", color=colour, markersize=12, markeredgewidth=2.2)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    quiet(axes)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def curve(comparison: Comparison) -> "Figure":
    """Return the curves of the arms with their bands. Raises `MissingExtra` without matplotlib."""
    figure = sheet(9, 5.2)
    axes = figure.add_subplot()
    draw_lines(axes, _plot_lines(comparison.curve), whole_bands=True)
    # From the beginning of training, so that the gap before the first evaluation of all runs is visible.
    axes.set_xlim(left=min(0.0, *comparison.curve.x))
    _scale(axes, comparison.axis)
    what = measured(comparison)
    title = "sample efficiency" if comparison.axis == "steps" else f"{what} against {comparison.axis}"
    over = f"IQM over {_over(comparison)}"
    finish(axes, f"{_title(comparison)}: {title}", over, _X[comparison.axis], _score(comparison))
    return figure


def _scale(axes: "Axes", axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6))
    if axis == "dollars":
        axes.xaxis.set_major_formatter(lambda value, _: money(value).replace("$", r"\$"))
    else:
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:g}")


def _profile(comparison: Comparison, path: Path) -> None:
    figure = sheet(9, 5.2)
    axes = figure.add_subplot()
    for index, (name, line) in enumerate(_plot_lines(comparison.profile).items()):
        colour, style = look(index)
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.12, linewidth=0, step="post")
        axes.plot(line.x, line.y, style, color=colour, linewidth=1.8, drawstyle="steps-post", label=name)
    axes.set_ylim(-0.02, 1.04)
    where = amount(comparison.at, comparison.axis)
    finish(
        axes,
        f"{_title(comparison)}: performance profiles at {where}",
        f"share of runs above a score; {_over(comparison)}",
        _score(comparison),
        "share of runs above",
    )
    for text in axes.legend(loc="lower left", frameon=False, fontsize=9).get_texts():
        text.set_parse_math(False)
    save(figure, path)


def _plot_lines(lines: CurveBands) -> dict[str, PlotLine]:
    x = np.array(lines.x)
    return {
        name: PlotLine(x, np.array(y), np.array(lines.low[name]), np.array(lines.high[name]))
        for name, y in lines.y.items()
    }


def draw_scores(tournament: Tournament, path: Path) -> None:
    """Draw the scores of all pairs and the mean returns of each side as matrices. Raises `MissingExtra` without
    matplotlib."""
    count, panels = len(tournament.teams), 1 + len(tournament.returns)
    # At least as wide as its heading.
    figure = sheet(1.6 + max(3.0, 1.0 + 0.62 * count) * panels, 2.4 + 0.5 * count)
    columns = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    _matrix(columns[0], tournament.scores, "RdBu", Digits(2), (0, 1))
    columns[0].set_title("share won, Elo in brackets", fontsize=9)
    for axes, (side, matrix) in zip(columns[1:], tournament.returns.items(), strict=True):
        _matrix(axes, matrix, "cividis", digits_of(value for row in matrix for value in row))
        axes.set_title(f"mean return of {side}", fontsize=9, parse_math=False)
    labels = [f"{team} ({rating:,.0f})" for team, rating in zip(tournament.teams, tournament.ratings, strict=True)]
    columns[0].set_yticks(range(count), labels, fontsize=8, parse_math=False)
    for axes in columns:
        axes.set_xticks(range(count), list(tournament.teams), rotation=45, ha="right", fontsize=8, parse_math=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    over = f"row's team against column's, {tournament.episodes:,} episodes per pair and side"
    heading(figure, f"{tournament.task}: cross-play", over)
    save(figure, path)


def _matrix(
    axes: "Axes",
    matrix: Sequence[Sequence[float]],
    colours: str,
    digits: Digits,
    limits: tuple[float, float] | None = None,
) -> None:
    low, high = limits or (np.min(matrix), np.max(matrix))
    image = axes.imshow(matrix, vmin=low, vmax=high, cmap=colours, aspect="auto")
    for (i, j), value in np.ndenumerate(np.array(matrix)):
        red, green, blue, _ = image.to_rgba(np.array([value]))[0]
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        axes.text(j, i, digits.text(value), ha="center", va="center", fontsize=8, color="white" if dark else "black")
