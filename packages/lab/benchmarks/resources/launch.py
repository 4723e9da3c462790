"""Trains the runs of a way with real processes and reads how long its actions and rounds took."""

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

import msgspec

from benchmarks.comparisons import own_study
from benchmarks.resources.asking_task import Line
from benchmarks.resources.prediction import Round, Trajectory
from benchmarks.resources.ways import Way
from marless.reports import journal

# The first round starts processes and imports packages.
WARM_UP = 1
_ENTRY_POINT = "asking = benchmarks.resources.asking_task:make"


@dataclass(frozen=True)
class Measured:
    """The rounds after the warm-up, run by run: trajectories, and the seconds of the round."""

    trajectories: list[list[list[Line]]]
    round_s: list[list[float]]

    def actions_s(self) -> list[float]:
        """The mean from a question to its answer in each round, over all runs."""
        return [
            mean(seconds for lines in rounds for line in lines for seconds in line.took_s)
            for rounds in zip(*self.trajectories, strict=True)
        ]

    def rounds_s(self) -> list[float]:
        """The mean of each round over all runs."""
        return [mean(seconds) for seconds in zip(*self.round_s, strict=True)]

    def drawn(self) -> list[list[Round]]:
        """Return the drawn times of trajectories, for a prediction."""
        return [
            [[Trajectory(line.thinks_s, line.sizes) for line in lines] for lines in rounds]
            for rounds in self.trajectories
        ]


def trained(way: Way, rounds: int) -> Measured:
    """Train the runs of the way, for so many rounds after the warm-up. Raises `RuntimeError` if one fails."""
    with tempfile.TemporaryDirectory(prefix="asking-") as text, _tokens(Path(text), way.reserved) as tokens:
        file = Path(text) / "lines"
        lines = _lines(way, rounds + WARM_UP, {"lines": str(file), "tokens": tokens})
        with own_study.trained("way", _ENTRY_POINT, lines) as runs:
            round_s = [_round_s(runs / f"run{number}-s1") for number in range(len(way.asked))]
        by_run: dict[int, list[Line]] = defaultdict(list)
        decoder = msgspec.json.Decoder(Line)
        for line in decoder.decode_lines(file.read_bytes()):
            by_run[line.salt].append(line)
    trajectories = [_by_round(by_run[number], way.trajectories, rounds) for number in range(len(way.asked))]
    return Measured(trajectories, round_s)


def _lines(way: Way, rounds: int, options: dict[str, str]) -> list[str]:
    settings = {**way.settings(), **{f"task.options.{key}": value for key, value in options.items()}}
    lines = [f"base.{key} = {json.dumps(value)}" for key, value in {**settings, "stop.rounds": rounds}.items()]
    lines += [f"pool.workers = {way.trajectories * len(way.asked)}", f"pool.cores = {way.cores}"]
    for number, name in enumerate(way.asked):
        lines += ["[[setting]]", f'name = "run{number}"']
        lines += [f"values.task.options.salt = {number}", f'values.task.options.resource = "{name}"']
    return ["seeds = [1]", *lines]


@contextmanager
def _tokens(folder: Path, number: int) -> Iterator[str]:
    """A named pipe that holds so many bytes. '' for none."""
    if not number:
        yield ""
        return
    path = folder / "tokens"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)  # open as long as trajectories are played, or their bytes would be lost
    try:
        os.write(descriptor, b"x" * number)
        yield str(path)
    finally:
        os.close(descriptor)


def _round_s(run: Path) -> list[float]:
    seconds = [line.seconds for line in journal.read(run / "metrics.jsonl")]
    return [after - before for before, after in pairwise(seconds)][WARM_UP - 1 :]


def _by_round(lines: list[Line], trajectories: int, rounds: int) -> list[list[Line]]:
    """A round begins when all trajectories of the last round have ended."""
    in_order = sorted(lines, key=lambda line: line.began)
    return [in_order[trajectories * number :][:trajectories] for number in range(WARM_UP, WARM_UP + rounds)]
