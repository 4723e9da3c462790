"""Trains one run with real processes and reads how long its rounds and tasks took."""

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from benchmarks.comparisons import own_study
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.reports import attempts, journal

Settings = Mapping[str, object]
# The first rounds start processes and import packages.
WARM_UP = 2
_ENTRY_POINT = "waiting = benchmarks.pipeline.waiting_task:make"


@dataclass(frozen=True)
class Way:
    """A way to train: settings, the pool that serves the run, and the barrier of `barriers` in its rounds."""

    settings: Settings
    slots: int
    cores: float
    barrier: str = ""


@dataclass(frozen=True)
class Measured:
    """The rounds after the warm-up: the seconds of each, and the attempts of each."""

    slots: int
    round_s: list[float]
    rounds: list[list[AttemptRecord]]
    sha256: str

    @property
    def median_s(self) -> float:
        """Seconds of a round."""
        return statistics.median(self.round_s)

    @cached_property
    def sampling_s(self) -> float:
        """From the first request of a round's samples to the last answer."""
        spans = []
        for records in self.rounds:
            samples = [record for record in records if record.work.startswith("sample/")]
            spans.append(max(each.ended_at for each in samples) - min(each.asked_at for each in samples))
        return statistics.median(spans)

    def busy_s(self, *kinds: str) -> list[list[float]]:
        """Return the seconds of a round's tasks of these kinds, round by round, in the order of their names."""
        return [
            [
                record.duration_ms / 1000
                for record in sorted(records, key=lambda each: each.work)
                if record.work.partition("/")[0] in kinds
            ]
            for records in self.rounds
        ]

    @cached_property
    def learning_s(self) -> float:
        """Seconds of a round's learners together."""
        return statistics.median(map(sum, self.busy_s("learn", "grad")))


def trained(way: Way, rounds: int) -> Measured:
    """Train a run of `rounds` rounds after the warm-up. Raises `RuntimeError` if it fails."""
    program = ("benchmarks.pipeline.barriers", way.barrier) if way.barrier else own_study.COMMAND_LINE
    with own_study.trained("way", _ENTRY_POINT, _lines(way, rounds + WARM_UP), program) as runs:
        (run,) = runs.iterdir()
        return _measured(run, way.slots)


def _lines(way: Way, rounds: int) -> list[str]:
    settings = {**way.settings, "stop.rounds": rounds}
    lines = [f"base.{key} = {json.dumps(value)}" for key, value in settings.items()]
    return ["seeds = [1]", f"pool.workers = {way.slots}", f"pool.cores = {way.cores}", *lines]


def _measured(run: Path, slots: int) -> Measured:
    lines = journal.read(run / "metrics.jsonl")
    by_round: dict[int, list[AttemptRecord]] = defaultdict(list)
    for record in attempts.read(run / "attempts.jsonl"):
        by_round[record.round].append(record)
    # The line of round r (from 1 on) is written when the tasks of round r - 1 (from 0 on) have ended.
    numbers = [line.round - 1 for line in lines[WARM_UP:]]
    seconds = [after.seconds - before.seconds for before, after in pairwise(lines)]
    summary = json.loads((run / "summary.json").read_text())
    rounds = [by_round[number] for number in numbers]
    return Measured(slots, seconds[WARM_UP - 1 :], rounds, summary["weights_sha256"])
