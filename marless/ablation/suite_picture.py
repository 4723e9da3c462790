"""The picture of a suite: the regret of every arm in every task."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from marless.ablation.suite_costs import TaskCosts, geometric_mean, is_static, regrets
from marless.reports.plot_style import COLOURS, finish, save, sheet
from marless.studies.cells import Arm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "regret.png"
_GREY = "#505050"


def draw(tasks: Sequence[TaskCosts], arms: Sequence[Arm], folder: Path, title: str) -> list[str]:
    """Draws the arms that all tasks have, the lowest geometric mean first. Returns the file's name, if there is one.

    Raises `MissingExtra` without matplotlib.
    """
    means = {
        arm.name: geometric_mean(arm_regrets)
        for arm in arms
        if len(arm_regrets := regrets(tasks, arm.name)) == len(tasks) and arm_regrets
    }
    if not means:
        return []
    order, ruled_arms = sorted(means, key=lambda name: means[name]), {arm.name for arm in arms if not is_static(arm)}
    figure = sheet(9, 2.2 + 0.3 * len(order))
    from matplotlib.ticker import LogLocator, NullLocator

    axes = figure.add_subplot()
    axes.set_xscale("log")
    _draw_tasks(axes, tasks, order)
    across = [means[name] for name in order]
    axes.scatter(across, range(len(order)), s=160, color="black", marker="|", label="geometric mean")
    axes.axvline(1, color=_GREY, linewidth=0.8)
    axes.set_yticks(range(len(order)), order, parse_math=False)
    for text, name in zip(axes.get_yticklabels(), order, strict=True):
        text.set_fontweight("bold" if name in ruled_arms else "normal")
    axes.invert_yaxis()
    subtitle = "bold: arms with rules; triangles: some run missed the target, so it would cost more"
    finish(axes, f"{title}: dollars to a good return", subtitle, "regret: 1 is the cheapest static arm of the task", "")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(visible=False, axis="y")
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9, handlelength=1)
    save(figure, folder / FILE)
    return [FILE]


def _draw_tasks(axes: "Axes", tasks: Sequence[TaskCosts], order: Sequence[str]) -> None:
    from matplotlib import colormaps

    # A colour twice would make one task look like another.
    turbo = [*colormaps["turbo"](np.linspace(0, 1, len(tasks)))]
    for task, colour in zip(tasks, COLOURS if len(tasks) <= len(COLOURS) else turbo, strict=False):
        for has_missed, marker in ((False, "o"), (True, ">")):
            rows = [row for row, name in enumerate(order) if task.arms[name].misses == has_missed]
            across = [task.arms[order[row]].regret or np.nan for row in rows]
            label = None if has_missed else task.task
            axes.scatter(across, rows, s=26, color=colour, marker=marker, alpha=0.8, label=label)
