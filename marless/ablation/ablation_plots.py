"""The pictures of an ablation: returns against their cost, the rules' choices, network sharing, and the bill."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marless.comparison.finished_run import FinishedRun
from marless.comparison.paired_by_seed import Axis, Runs
from marless.coordinator.rules.student_t import t_quantile
from marless.functions.function_specs import FUNCTIONS, NAMES
from marless.reports.plot_style import (
    COLOURS,
    FloatArray,
    PlotLine,
    draw_lines,
    finish,
    heading,
    look,
    quiet,
    save,
    sheet,
)
from marless.reports.statistics import FEWEST_SEEDS
from marless.reports.text import money

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 120
_AXES: dict[Axis, tuple[str, str]] = {
    "env_steps": ("return_steps.png", "environment steps"),
    "dollars": ("return_dollars.png", "dollars of training on AWS Lambda and S3 (logarithmic)"),
    "seconds": ("return_seconds.png", "seconds of training on this machine"),
}
_SHORT: dict[Axis, str] = {"env_steps": "data", "dollars": "money", "seconds": "time"}
_RETURN = "return (greedy, sum over agents)"
_BILLED = "dollars on AWS Lambda and S3, including the final evaluation"
_PARTS = (*NAMES, "requests", "storage")
_PART_NAMES = (*(spec.work for spec in FUNCTIONS), "requests of functions", "storage and ledger")
_PART_COLOURS = (*COLOURS[1 : 1 + len(NAMES)], COLOURS[-1], "#bdbdbd")
_EVENTS = {
    "shared": ("^", "sharing switched on"),
    "split": ("v", "agents part"),
    "rejected": ("x", "rejected by a trial"),
    "alone": (".", "due, but no two policies are similar"),
}

Arms = Mapping[str, Runs]


def draw(arms: Arms, folder: Path, title: str) -> list[str]:
    """Draws all pictures of arms with runs. Returns the file names. Raises `MissingExtra` without matplotlib."""
    for axis, (name, _) in _AXES.items():
        _returns(arms, axis, folder / name, title)
    _rounds(arms, folder / "rounds.png", title)
    _bill(arms, folder / "bill.png", title)
    files = [*(name for name, _ in _AXES.values()), "rounds.png", "bill.png"]
    return [*files, "groups.png"] if _groups(arms, folder / "groups.png", title) else files


def mean_line(curves: Sequence[tuple[FloatArray, FloatArray]], logarithmic: bool = False) -> PlotLine:
    """Return the mean of curves ``(x, y)``, x ascending, with the 95 % interval of Student's t over them.

    Fewer than `FEWEST_SEEDS` curves have no interval: with two it is 9 times as wide as their standard deviation.
    The mean begins where all curves have begun. From the end of the first curve it is a straight line to the mean of
    the ends.
    """
    first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    spacing = np.geomspace if logarithmic and first > 0 else np.linspace
    grid = spacing(first, max(first, last), _POINTS)
    values = np.array([[*np.interp(grid, x, y), y[-1]] for x, y in curves])
    positions = np.append(grid, max(grid[-1], np.mean([x[-1] for x, _ in curves])))
    middle = values.mean(axis=0)
    runs = len(curves)
    half = (
        t_quantile(0.975, runs - 1) * values.std(axis=0, ddof=1) / np.sqrt(runs)
        if runs >= FEWEST_SEEDS
        else np.zeros(len(positions))
    )
    return PlotLine(positions, middle, middle - half, middle + half)


def _returns(arms: Arms, axis: Axis, path: Path, title: str) -> None:
    figure = sheet(9, 5.2)
    axes = figure.add_subplot()
    if axis == "dollars":
        axes.set_xscale("log")
    lines = {
        name: mean_line([_curve(result, axis) for result in runs.values()], logarithmic=axis == "dollars")
        for name, runs in arms.items()
    }
    draw_lines(axes, lines)
    finish(axes, f"{title}: return against {_SHORT[axis]}", _band(arms), _AXES[axis][1], _RETURN)
    _scale(axes, axis)
    save(figure, path)


def _curve(result: FinishedRun, axis: Axis) -> tuple[FloatArray, FloatArray]:
    """Returns over `axis`, without points of zero cost on the logarithmic dollar axis."""
    points = [point for point in result.curve if axis != "dollars" or point.dollars > 0]
    return np.array([float(getattr(point, axis)) for point in points]), np.array([point.mean for point in points])


def _scale(axes: "Axes", axis: Axis) -> None:
    if axis != "dollars":
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:g}")
        return
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 500 else (1,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: money(value).replace("$", r"\$"))


def _band(arms: Arms) -> str:
    fewest, most = (limit(map(len, arms.values())) for limit in (min, max))
    seeds = f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"
    if fewest < FEWEST_SEEDS:
        return f"mean over {seeds}, no bands below {FEWEST_SEEDS} seeds" if most > 1 else "one seed"
    return f"mean over {seeds}, band: 95 % interval"


def _rounds(arms: Arms, path: Path, title: str) -> None:
    """One row per arm, so that equal lines do not hide one another."""
    figure = sheet(9, 1.6 + 0.95 * len(arms))
    grid = figure.subplots(len(arms), 2, sharex=True, sharey="col", squeeze=False)
    kinds: dict[str, Callable[[FinishedRun], list[int]]] = {
        "rollouts per round": lambda result: [line.rollouts for line in result.history],
        "learner invocations per round": lambda result: [line.learners for line in result.history],
    }
    for column, (what, of) in zip(grid.T, kinds.items(), strict=True):
        lines = [_by_round([of(result) for result in runs.values()]) for runs in arms.values()]
        for index, (axes, line) in enumerate(zip(column, lines, strict=True)):
            colour, _ = look(index)
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.25, linewidth=0)
            axes.plot(line.x, line.y, "-" if len(line.x) > 1 else "o", color=colour, linewidth=1.3)
            quiet(axes)
        column[0].set_ylim(0, 1.1 * max(1.0, *(float(line.high.max()) for line in lines)))
        column[0].set_title(what, loc="right", fontsize=9, pad=3)
        column[-1].set_xlabel("round")
    for index, (axes, name) in enumerate(zip(grid[:, 0], arms, strict=True)):
        colour, _ = look(index)
        axes.set_title(name, loc="left", fontsize=9, color=colour, fontweight="bold", parse_math=False, pad=3)
    heading(figure, f"{title}: rollouts and learners chosen by the rules", "mean, lowest and highest over seeds")
    save(figure, path)


def _by_round(series: Sequence[Sequence[int]]) -> PlotLine:
    length = min(map(len, series))
    values = np.array([numbers[:length] for numbers in series], float)
    return PlotLine(np.arange(1, length + 1, dtype=float), values.mean(axis=0), values.min(axis=0), values.max(axis=0))


def _bill(arms: Arms, path: Path, title: str) -> None:
    figure = sheet(9, 2.1 + 0.42 * len(arms))
    from matplotlib.ticker import MaxNLocator

    axes = figure.add_subplot()
    names, totals = list(arms), np.zeros(len(arms))
    for part, label, colour in zip(_PARTS, _PART_NAMES, _PART_COLOURS, strict=True):
        widths = [float(np.mean([getattr(result, part) for result in runs.values()])) for runs in arms.values()]
        if any(widths):
            axes.barh(names, widths, left=totals, color=colour, label=label, height=0.68)
            totals = totals + widths
    for row, total in enumerate(totals):
        axes.text(total, row, f"  {money(total)}", va="center", fontsize=9, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.14 * max(totals))
    finish(axes, f"{title}: the bill of one run", _band(arms).partition(",")[0], _BILLED, "")
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda value, _: rf"\${value:.6f}".rstrip("0").rstrip("."))
    axes.grid(visible=False, axis="y")
    figure.legend(loc="outside lower center", ncols=len(_PARTS), frameon=False, fontsize=9, handlelength=1)
    save(figure, path)


def _groups(arms: Arms, path: Path, title: str) -> bool:
    """Network sharing in the first seed of every arm with groups that changed or might have. False without one."""
    first = {name: runs[min(runs)] for name, runs in arms.items()}
    sharing = {
        name: run
        for name, run in first.items()
        if any(line.event in _EVENTS or line.team != run.history[0].team for line in run.history)
    }
    if not sharing:
        return False
    figure = sheet(9, 1.5 + 1.25 * len(sharing))
    rows = figure.subplots(len(sharing), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, result) in zip(rows, sharing.items(), strict=True):
        _timeline(axes, result, f"{name}, seed {result.seed}")
    rows[-1].set_xlabel("round")
    heading(figure, f"{title}: network sharing", "agents of the same colour share a network")
    same = textwrap.fill(", ".join(name for name in arms if name not in sharing), 110)
    handles = {label: handle for axes in rows for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower left",
        ncols=len(_EVENTS),
        frameon=False,
        fontsize=9,
        title=f"the same groups in every round, not shown:\n{same}" if same else None,
        title_fontsize=9,
        alignment="left",
    )
    save(figure, path)
    return True


def _timeline(axes: "Axes", result: FinishedRun, title: str) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    teams = np.array([line.team for line in result.history]).T
    agents, rounds = teams.shape
    # More agents than colours need a colour map: using a colour twice would suggest sharing.
    colours = [*COLOURS[1:], COLOURS[0]] if agents <= len(COLOURS) else colormaps["turbo"](np.linspace(0, 1, agents))
    axes.imshow(
        teams,
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap(colours[:agents]),
        vmin=-0.5,
        vmax=agents - 0.5,
        extent=(0.5, rounds + 0.5, agents - 0.5, -0.5),
    )
    for border in range(1, agents):
        axes.axhline(border - 0.5, color="white", linewidth=1.5)
    axes.set_ylim(agents - 0.5, -1.8)
    axes.set_yticks(range(agents), [str(agent) for agent in range(agents)], fontsize=8)
    for event, (marker, label) in _EVENTS.items():
        if at_rounds := [index + 1 for index, line in enumerate(result.history) if line.event == event]:
            axes.scatter(at_rounds, [-1.1] * len(at_rounds), marker=marker, s=22, color="#404040", label=label)
    axes.set_title(title, loc="left", fontsize=9, parse_math=False)
    axes.set_ylabel("agent")
    axes.spines[:].set_visible(False)
