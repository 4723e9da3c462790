"""Draw the charts of README.md from stored records: ``python -m scripts.charts``."""

import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.comparisons.run_prices import WAYS
from benchmarks.conformance.protocols import published
from marless.functions.algorithms.registry import ALGORITHMS
from marless.reports.plot_style import COLOURS, finish, save, sheet
from marless.reports.statistics import mean
from scripts.reference.returns import TASK, measured_returns, treatments

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_GREY = "#909090"
_RATES = {
    "plain loop, env steps/s": "PPO loop in torch",
    "plain loop of our actor and our learner (native), env steps/s": "our code, no functions",
    "marless train, 1 worker, packed, env steps/s": "functions, 1 worker",
    "marless train, 2 workers, balanced, env steps/s": "functions, 2 workers",
}


class Return(NamedTuple):
    """An algorithm's best treatment: its mean return with an interval, and the best published return or None."""

    algorithm: str
    mean: float
    low: float
    high: float
    published: float | None


def returns() -> list[Return]:
    """Return the better of the treatments of docs/results/returns.md for each algorithm, the best first."""
    measured = measured_returns()
    keys = {spec.name: [key for _, key in treatments(spec.name, measured)] for spec in ALGORITHMS.ours()}
    best = {
        name: max((measured[key] for key in of), key=lambda entry: entry["mean"]) for name, of in keys.items() if of
    }
    rows = []
    for name, entry in best.items():
        low, high = entry["ci95"]
        peer = published(TASK, name)
        rows.append(Return(name, entry["mean"], low, high, peer[0] if peer else None))
    return sorted(rows, key=lambda row: -row.mean)


def rates() -> dict[str, float]:
    """Return environment steps per second by the newest measurement in benchmarks.csv."""
    with (RESULTS / "benchmarks.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["measurement"]: row["median"] for row in csv.DictReader(file) if row["commit"] == "1647d0b"}
    return {label: float(rows[name].replace(",", "")) for name, label in _RATES.items()}


def prices() -> dict[str, float]:
    """Return the mean dollars of the default run by the way it runs, from run-prices.csv."""
    with (RESULTS / "run-prices.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {label.replace("`", ""): mean([float(row[way]) for row in rows]) for way, label in WAYS.items()}


def draw_returns(path: Path) -> None:
    """Draw each algorithm's return and interval, and the published return for comparison."""
    figure = sheet(8, 4.2)
    axes = figure.subplots()
    rows = returns()[::-1]
    heights = range(len(rows))
    axes.hlines(heights, [row.low for row in rows], [row.high for row in rows], color=COLOURS[1], linewidth=3)
    axes.plot([row.mean for row in rows], heights, "o", color=COLOURS[1], label="MARLess: mean and 95 % interval")
    peers = [(row.published, height) for height, row in enumerate(rows) if row.published is not None]
    axes.plot(*zip(*peers, strict=True), "D", color=_GREY, label="best published (Papoudakis et al. 2021)")
    axes.set_yticks(heights, [row.algorithm for row in rows])
    axes.legend(loc="upper left", frameon=False)
    finish(axes, "Return on mpe/simple_spread, three agents", "five seeds each; right is better", "return", "")
    save(figure, path)


def draw_speed_and_dollars(path: Path) -> None:
    """Draw bars of speed and of dollars side by side."""
    figure = sheet(11, 3.2)
    speed, dollars = figure.subplots(1, 2)
    _bars(speed, rates(), lambda value: f"{value:,.0f}")
    finish(speed, "Speed of MAPPO's default run", "environment steps per second; longer is better", "", "")
    _bars(dollars, prices(), lambda value: f"${value:.2g}")
    finish(dollars, "Price of MAPPO's default run", "dollars for 640,000 steps; shorter is better", "", "")
    save(figure, path)


def _bars(axes: Any, values: Mapping[str, float], text: Any) -> None:
    bars = axes.barh(range(len(values)), list(values.values()), color=COLOURS[1], height=0.6)
    axes.bar_label(bars, [text(value) for value in values.values()], padding=4)
    axes.set_yticks(range(len(values)), values)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xticks([])


def main() -> int:
    """Draw both charts."""
    draw_returns(RESULTS / "returns.png")
    draw_speed_and_dollars(RESULTS / "speed-and-dollars.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
