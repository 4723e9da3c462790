"""Speed and dollars of training by the size of the networks: real runs of every placement, and the learner alone."""

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.launch import measured
from benchmarks.training import UNEVALUATED, trained
from marless.reports.plot_style import finish, look, save, sheet
from marless.reports.text import markdown_table

# Widths of the two hidden layers, and rounds of a run: one agent's policy and critic have 4 thousand to 1 million
# parameters together.
ROUNDS = {30: 50, 64: 50, 128: 30, 256: 16, 448: 8, 690: 6}
PLACEMENTS = ("packed", "fused", "split")
WORKERS, REPETITIONS = 2, 3
HEADER = (
    "parameters",
    *(f"{name}, steps/s" for name in PLACEMENTS),
    "fastest",
    *(f"{name}, $ per 1M steps" for name in PLACEMENTS),
    "cheapest",
    "round that is not arithmetic",
    "learner, GFLOP/s",
    "of its products alone",
)


@dataclass(frozen=True)
class Size:
    """The measurements of one width of the networks.

    `rates` in steps per second and `dollars` per million steps are by placement, medians on two workers. `overhead` is
    the share of a round on one worker, packed, outside sampling and learning: objects, messages and the coordinator.
    `gflops` is the learner's rate of matrix products, `share` that rate over the rate of the products alone.
    """

    parameters: int
    rates: dict[str, float]
    dollars: dict[str, float]
    overhead: float
    gflops: float
    share: float

    def cells(self) -> tuple[str, ...]:
        """The row of the table, in the order of `HEADER`."""
        return (
            f"{self.parameters:,}",
            *(f"{self.rates[name]:,.0f}" for name in PLACEMENTS),
            max(PLACEMENTS, key=self.rates.__getitem__),
            *(f"{self.dollars[name]:.4f}" for name in PLACEMENTS),
            min(PLACEMENTS, key=self.dollars.__getitem__),
            f"{self.overhead:.2f}",
            f"{self.gflops:.1f}",
            f"{self.share:.2f}",
        )


def measure() -> list[Size]:
    """All sizes, which takes some minutes. Progress goes to standard error."""
    sizes = []
    for width, rounds in ROUNDS.items():
        print(f"       hidden layers of {width}", file=sys.stderr, flush=True)
        sizes.append(_size(width, rounds))
    return sizes


def _size(width: int, rounds: int) -> Size:
    rates: dict[str, list[float]] = {name: [] for name in PLACEMENTS}
    dollars: dict[str, list[float]] = {name: [] for name in PLACEMENTS}
    overheads, gflops, shares = [], [], []
    for seed in range(1, REPETITIONS + 1):
        run = (f"seed={seed}", f"stop.rounds={rounds}", f"algorithm.hidden=[{width},{width}]")
        for name in PLACEMENTS:
            training = trained(WORKERS, *UNEVALUATED, *run, f"placement.rule={name}")
            rates[name].append(training.env_steps_per_second)
            dollars[name].append(training.dollars_per_million_steps)
        whole = measured("system", *run, "placement.rule=packed")["round"]
        alone = measured("learner", "--repetitions", 3, "--hidden", width)
        sampling, learning, products = (
            statistics.median(alone[f"{of}_ms"]) for of in ("sampling", "learning", "products")
        )
        overheads.append(1 - (sampling + learning) / whole)
        gflops.append(alone["flops"] / learning / 1e6)
        shares.append(products / learning)
    return Size(
        alone["parameters"],
        {name: statistics.median(found) for name, found in rates.items()},
        {name: statistics.median(found) for name, found in dollars.items()},
        statistics.median(overheads),
        statistics.median(gflops),
        statistics.median(shares),
    )


def table(sizes: Sequence[Size]) -> str:
    """The sizes as markdown."""
    return markdown_table(HEADER, [size.cells() for size in sizes])


def draw(sizes: Sequence[Size], path: Path) -> None:
    """Steps per second and dollars of each placement over the number of parameters, as PNG."""
    figure = sheet(11, 4.4)
    speed, cost = figure.subplots(1, 2)
    x = np.array([size.parameters for size in sizes], np.float64)
    for axes, of in ((speed, "rates"), (cost, "dollars")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        lines = {name: np.array([getattr(size, of)[name] for size in sizes]) for name in PLACEMENTS}
        for index, (name, y) in enumerate(lines.items()):
            colour, style = look(index)
            axes.plot(x, y, style, marker="o", color=colour, linewidth=1.8, label=name)
        axes.legend(frameon=False)
    finish(speed, "Speed", f"environment steps per second, {WORKERS} workers", "parameters of an agent", "steps/s")
    finish(cost, "Cost", "what a million steps would cost on AWS Lambda", "parameters of an agent", "dollars")
    save(figure, path)
