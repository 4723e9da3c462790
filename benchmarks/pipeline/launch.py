"""Trains one run with real processes and reads how long its rounds and tasks took."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from benchmarks.launch import ROOT, environment
from coordinator.drive.attempt_record import AttemptRecord
from marless.reports import attempts, journal

Settings = Mapping[str, object]
# The first rounds start processes and import packages.
WARM_UP = 2
_ENTRY_POINT = "[marless.environments]\nwaiting = benchmarks.pipeline.waiting_task:make\n"


@dataclass(frozen=True)
class Way:
    """A way to train: settings, the pool that serves the run, and which barrier of `barriers` stands in its rounds."""

    settings: Settings
    slots: int
    cores: float
    barrier: str = ""


@dataclass(frozen=True)
class Measured:
    """Rounds after those that warm up: the seconds of each, and the attempts of each."""

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
        """Seconds of each of a round's tasks whose names begin so, round by round, in the order of their names."""
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
    """A run of `rounds` rounds and those that warm up; raises `CalledProcessError` if it fails."""
    with tempfile.TemporaryDirectory(prefix="pipeline-") as text:
        folder = Path(text)
        information = folder / "site" / "benchmark_tasks-1.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: benchmark-tasks\nVersion: 1\n")
        (information / "entry_points.txt").write_text(_ENTRY_POINT)
        (folder / "way.toml").write_text(_file(way, rounds + WARM_UP))
        program = ["benchmarks.pipeline.barriers", way.barrier] if way.barrier else ["marless.cli.app"]
        done = subprocess.run(
            [sys.executable, "-m", *program, "study", "way.toml"],
            cwd=folder,
            env={**environment(), "PYTHONPATH": os.pathsep.join((str(folder / "site"), str(ROOT)))},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{dict(way.settings)} did not train: {done.stdout} {done.stderr}")
        (run,) = (folder / "studies" / "way" / "runs").iterdir()
        return _measured(run, way.slots)


def _file(way: Way, rounds: int) -> str:
    settings = {**way.settings, "stop.rounds": rounds}
    lines = [f"base.{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(["seeds = [1]", f"pool.slots = {way.slots}", f"pool.cores = {way.cores}", *lines, ""])


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
