"""Numbers of README that one measurement gives at a time: the first run, random play, prices and rates."""

import csv
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.comparisons import run_prices
from benchmarks.launch import ROOT, measured
from benchmarks.reproduce.numbers import Cell, OnValues, Published
from benchmarks.training import MAPPO, UNEVALUATED, trained
from marless.reports.statistics import ci95, mean
from marless.signals import Signals
from scripts import random_play

_RESULTS = ROOT / "docs" / "results"
_NORMAL = 1.96
_FIRST_RUN = re.compile(r"^final return +(-?[\d.]+) ± ([\d.]+)", re.MULTILINE)
# The commit of README's rates, their names in its record, and how they are measured.
_RATES_COMMIT, _STEPS, _REPETITIONS = "1647d0b", 48_000, 2
_RATES = {
    "plain loop": "plain loop, env steps/s",
    "no functions": "plain loop of our actor and our learner (native), env steps/s",
    "1 worker": "marless train, 1 worker, packed, env steps/s",
    "2 workers": "marless train, 2 workers, balanced, env steps/s",
}


class Single(NamedTuple):
    """A cell and the function that measures it."""

    cell: Cell
    measure: Callable[[], Mapping[str, float]]


class Singles:
    """Cells that are measured one after another."""

    is_parallel = False

    def __init__(self, published: Mapping[str, Published], singles: Sequence[Single]) -> None:
        self._published, self._singles = published, singles

    def published(self) -> Mapping[str, Published]:
        """See `Table`."""
        return self._published

    def cells(self) -> Sequence[Cell]:
        """See `Table`."""
        return [single.cell for single in self._singles]

    def measure(self, cells: Sequence[Cell], folder: Path, jobs: int, signals: Signals, on_values: OnValues) -> None:
        """See `Table`. One process measures at a time, because other processes would change its seconds."""
        for single in self._singles:
            if single.cell in cells and not signals.received:
                began = time.monotonic()
                values = single.measure()
                on_values(single.cell, values, time.monotonic() - began)


def first_run() -> Singles:
    """The return that README's first `make train` prints, over the episodes of its final evaluation."""
    match = _FIRST_RUN.search((ROOT / "README.md").read_text(encoding="utf-8"))
    if match is None:
        raise SystemExit("README.md prints no final return: change benchmarks/reproduce/singles.py")
    value, half = float(match[1]), float(match[2])
    number = "first run"

    def _train() -> Mapping[str, float]:
        return {number: float(trained(2).summary["final_return"]["mean"])}

    return Singles({number: Published(value, value - half, value + half)}, [Single(Cell(number, 0, (number,)), _train)])


def random_team() -> Singles:
    """The mean return of random play."""
    number, entry = "random team", "spread_3"
    record = random_play.read()[entry]
    half = _NORMAL * record["standard_error"]

    def _play() -> Mapping[str, float]:
        return {number: float(random_play.play(random_play.TASKS[entry], random_play.EPISODES)["mean"])}

    published = Published(record["mean"], record["mean"] - half, record["mean"] + half)
    return Singles({number: published}, [Single(Cell(number, 0, (number,)), _play)])


def prices() -> Singles:
    """The dollars of MAPPO's default run. They follow from its seconds on this machine."""
    rows = run_prices.read(_RESULTS / "run-prices.csv")
    published = {}
    for way in run_prices.WAYS:
        dollars = [float(row[way]) for row in rows]
        published[f"dollars/{way}"] = Published(mean(dollars), *ci95(dollars), len(dollars))
    return Singles(published, [_price(row, tuple(published)) for row in rows])


def _price(row: Mapping[str, str], numbers: tuple[str, ...]) -> Single:
    def _measure() -> Mapping[str, float]:
        new = run_prices.priced(int(row["seed"]))
        return {number: float(new[number.partition("/")[2]]) for number in numbers}

    # Two placements train one after the other.
    return Single(Cell(f"dollars/{row['seed']}", 2 * float(row["seconds"]), numbers), _measure)


def rates() -> Singles:
    """Environment steps per second of MAPPO's default run."""
    with (_RESULTS / "benchmarks.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["measurement"]: row for row in csv.DictReader(file) if row["commit"] == _RATES_COMMIT}
    published = {f"speed/{name}": _rate(rows[measurement]) for name, measurement in _RATES.items()}
    singles = [
        Single(Cell(name, _REPETITIONS * _STEPS / number.value, (name,)), _repeated(name))
        for name, number in published.items()
    ]
    return Singles(published, singles)


def _rate(row: Mapping[str, str]) -> Published:
    low, high = (float(text.replace(",", "")) for text in row["min … max"].partition(" (")[0].split(" … "))
    return Published(float(row["median"].replace(",", "")), low, high)


def _repeated(name: str) -> Callable[[], Mapping[str, float]]:
    def _measure() -> Mapping[str, float]:
        return {name: mean([_speed(name.partition("/")[2], seed) for seed in range(1, _REPETITIONS + 1)])}

    return _measure


def _speed(name: str, seed: int) -> float:
    if name in ("plain loop", "no functions"):
        form = "baseline.torch_form" if name == "plain loop" else "baseline.kernel_form"
        loop = measured(form, "--seed", seed, "--steps", _STEPS, "--eval-every", 0, "--json")
        return float(loop["env_steps_per_second"])
    workers, rule = (1, "packed") if name == "1 worker" else (2, "balanced")
    settings = (MAPPO, f"seed={seed}", f"stop.env_steps={_STEPS}", f"placement.rule={rule}")
    return trained(workers, *UNEVALUATED, *settings).env_steps_per_second
