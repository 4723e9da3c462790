"""The best setting of the torch baseline on this machine, and the rates of both forms and of `marless train`.

    python -m benchmarks.baseline docs/results/baseline.jsonl

The record has one line per run. Its runs are measured again only if the program has changed. The best setting is chosen
on seeds from 100 on. First the code is chosen by its rate, then activation and environments by the seconds to the
target. The number of updates per sample is the same for all.
"""

import math
import os
import statistics
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.baseline.loop import NATIVE, STEPS, TARGETS
from benchmarks.launch import measured
from benchmarks.records import json_lines
from benchmarks.table import Row, markdown, quotients
from benchmarks.training import MAPPO, UNEVALUATED, trained
from marless.reports import provenance
from marless.reports.provenance import written_by

TARGET = TARGETS[-1]
TORCH, KERNELS, GUARD = "torch, best setting", "our kernels, no functions", "passes"
COMMAND = "python -m benchmarks.baseline docs/results/baseline.jsonl"
# The forward and backward passes alone take at least this share of the torch learner's time. It was fixed after the
# first measurements (0.31 to 0.37), so it catches a loop that becomes slower.
LEAST_SHARE = 0.25


class Setting(NamedTuple):
    """A setting of the torch baseline. The defaults are the settings of `marless train`."""

    threads: int = 1
    adam: str = "fused"
    activation: str = "tanh"
    envs: int = 64

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._asdict().items())

    def arguments(self) -> list[object]:
        """Return the setting as options of the torch form."""
        return [word for name, value in self._asdict().items() for word in (f"--{name}", value)]


CODES = (Setting(), Setting(adam="foreach"), Setting(threads=2))
ACTIVATIONS = ("tanh", "relu")
ENVS = (32, 64, 128, 256)


class Effort(NamedTuple):
    """Seeds and environment steps of the parts of the measurement."""

    code_seeds: Sequence[int] = (101, 102)
    code_steps: int = 16_000
    learning_seeds: Sequence[int] = (101, 102, 103)
    learning_steps: int = STEPS
    seeds: Sequence[int] = (1, 2, 3, 4, 5)
    steps: int = 48_000


QUICK = Effort((101,), 3200, (101,), 16_000, (1,), 3200)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `part` is `code`, `learning` or `rates`.

    `seconds` are training seconds to the target, or None. `share` is the passes' share of the time of the torch
    learner, see `passes`.
    """

    part: str
    arm: str
    seed: int
    steps_per_second: float | None = None
    seconds: float | None = None
    share: float | None = None
    commit: str | None
    program: str
    command: str
    processor: str
    cores: int
    load: tuple[float, float]
    date: str


Measure = Callable[[int], dict[str, float | None]]
"""Measures one seed."""


class Measurement:
    """The runs of a record. Each new run is stored at once."""

    def __init__(self, path: Path, effort: Effort) -> None:
        self._path, self._effort, self._program = path, effort, provenance.code_sha256()
        self.runs = [run for run in json_lines.read(path, Run) if run.program == self._program]

    def best(self) -> Setting:
        """Return the setting of the torch baseline that is the fastest here and learns."""
        code = max(CODES, key=self._rate)
        activation = min(ACTIVATIONS, key=lambda name: self._seconds(code._replace(activation=name)))
        return min((code._replace(activation=activation, envs=envs) for envs in ENVS), key=self._seconds)

    def rates(self, best: Setting) -> None:
        """Measure both forms of the baseline and `marless train` in turn, and the guard."""
        options = ("--steps", self._effort.steps, "--eval-every", 0)
        settings = (MAPPO, *UNEVALUATED, f"stop.env_steps={self._effort.steps}")
        arms: dict[str, Measure] = {
            TORCH: _form("torch_form", *options, *best.arguments()),
            "torch, settings of marless train": _form("torch_form", *options),
            KERNELS: _form("kernel_form", *options),
            "1 worker": _system(1, *settings, "placement.rule=packed"),
            "2 workers": _system(2, *settings),
            GUARD: share_of_passes,
        }
        for seed in self._effort.seeds:
            for arm, measure in arms.items():
                self._run("rates", arm, seed, measure)

    def _rate(self, setting: Setting) -> float:
        options = ("--steps", self._effort.code_steps, "--eval-every", 0, *setting.arguments())
        seeds, measure = self._effort.code_seeds, _form("torch_form", *options)
        runs = [self._run("code", str(setting), seed, measure) for seed in seeds]
        return statistics.median(run.steps_per_second or 0.0 for run in runs)

    def _seconds(self, setting: Setting) -> float:
        """Return the median of the seconds to the target. A seed that does not reach it counts as the slowest."""
        options = ("--steps", self._effort.learning_steps, "--until", TARGET, *setting.arguments())
        seeds, measure = self._effort.learning_seeds, _form("torch_form", *options)
        runs = [self._run("learning", str(setting), seed, measure) for seed in seeds]
        return statistics.median(math.inf if run.seconds is None else run.seconds for run in runs)

    def _run(self, part: str, arm: str, seed: int, measure: Measure) -> Run:
        """Return the run of the record, or measure and store it."""
        for run in self.runs:
            if (run.part, run.arm, run.seed) == (part, arm, seed):
                return run
        before = os.getloadavg()[0]
        values = measure(seed)
        run = Run(
            part=part,
            arm=arm,
            seed=seed,
            commit=provenance.commit(),
            program=self._program,
            command=COMMAND,
            processor=provenance.machine(),
            cores=len(os.sched_getaffinity(0)),
            load=(before, os.getloadavg()[0]),
            date=datetime.now(UTC).date().isoformat(),
            **values,
        )
        print(f"{part}: {arm}, seed {seed}: {values}", file=sys.stderr, flush=True)
        self.runs.append(run)
        json_lines.write(self._path, self.runs)
        return run


def _form(module: str, *options: object) -> Measure:
    def measure(seed: int) -> dict[str, float | None]:
        """Return the rate, and the seconds to the target."""
        record = measured(f"baseline.{module}", "--seed", seed, *options, "--json")
        return {"steps_per_second": record["env_steps_per_second"], "seconds": record["seconds_to"][f"{TARGET:g}"]}

    return measure


def _system(workers: int, *settings: str) -> Measure:
    return lambda seed: {"steps_per_second": trained(workers, f"seed={seed}", NATIVE, *settings).env_steps_per_second}


def share_of_passes(seed: int) -> dict[str, float | None]:
    """Return the share of the passes in the time of the torch learner."""
    times = measured("baseline.passes", "--seed", seed, "--repetitions", 5)
    return {"share": statistics.median(quotients(times["passes_ms"], times["learning_ms"]))}


def table(runs: Sequence[Run]) -> str:
    """Return the tables of rates and of the settings of the torch baseline, in markdown."""
    values: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        values.setdefault((run.part, run.arm), []).append(run)
    of = {arm: [run.steps_per_second or 0.0 for run in of] for (part, arm), of in values.items() if part == "rates"}
    shares = [run.share for run in values["rates", GUARD] if run.share is not None]
    guard = Row("passes of the torch learner / its time", shares, ".2f", least=LEAST_SHARE)
    rows = [guard, *(_rate_row(arm, rates, of[TORCH]) for arm, rates in of.items() if arm != GUARD)]
    chosen = [_setting_row(part, arm, of) for (part, arm), of in values.items() if part != "rates"]
    return f"{markdown(rows)}\n\n{markdown(chosen)}"


def _rate_row(arm: str, rates: list[float], torch: list[float]) -> Row:
    return Row(f"{arm}, env steps/s", rates, ratios=quotients(rates, torch), against=TORCH)


def _setting_row(part: str, arm: str, runs: Iterable[Run]) -> Row:
    if part == "code":
        return Row(f"{arm}, env steps/s", [run.steps_per_second or 0.0 for run in runs])
    seconds = [math.inf if run.seconds is None else run.seconds for run in runs]
    return Row(f"{arm}, seconds to {TARGET:g}", seconds, ".1f")


def main() -> None:
    """Measure the missing runs of the record, and print the tables."""
    parser = ArgumentParser(prog="python -m benchmarks.baseline", description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--quick", action="store_true", help="a few steps of one seed, to try the command")
    options = parser.parse_args()
    measurement = Measurement(options.record, QUICK if options.quick else Effort())
    best = measurement.best()
    measurement.rates(best)
    print(table(measurement.runs), f"The best setting of the torch baseline: {best}.", written_by(), sep="\n\n")
