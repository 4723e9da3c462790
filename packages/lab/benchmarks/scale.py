"""The coordinator's processor time by the number of rollouts in a round, and how large its messages and items become.

The driver, its decisions and its bill are real, and functions answer at once (see `marless.estimation`). Rollouts
have one environment each, as the actors of the MARLess paper.
"""

import dataclasses
import resource
import tempfile
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from benchmarks.table import Row
from benchmarks.training import MAPPO
from marless.coordinator.config.loading import load
from marless.estimation.forecast import Simulated
from marless.estimation.recording import Recording, record
from marless.estimation.service_times import fit
from marless.estimation.simulation import SimulatedSetting, drive
from marless.estimation.virtual_functions import VirtualClock, VirtualLedger
from marless.infra.local.sqlite_ledger import LEDGER_FILE, SqliteLedger

ROLLOUTS = (50, 500, 1850, 10_000)
# Rollouts of all rounds of a repetition together.
_PLAYED = 20_000
# Microseconds a rollout and round, at most, and with micro-batches.
_MOST, _MOST_STREAMED = 54.0, 60.0
_MICRO_BATCHES = 16
_SETTINGS = (
    MAPPO,
    "actors.num_envs=1",
    "actors.rollouts=4",
    "evaluation.every=1000",
    # Ten thousand rollouts are learned in one function here.
    "functions.learner.memory_mb=10240",
    "functions.learner.timeout_s=900",
)

_STREAMED = ("placement.rule=packed", "pipeline.micro_batch=1", "algorithm.epochs=1", "algorithm.num_minibatches=1")


class SqliteBeside(VirtualLedger):
    """A ledger that also sends its commits to SQLite, in the coordinator's time."""

    def __init__(self, clock: VirtualClock, sqlite: SqliteLedger) -> None:
        super().__init__(clock)
        self._sqlite = sqlite

    def commit(self, item: str, body: bytes, version: int) -> int:
        self._sqlite.commit(item, body, version)
        return super().commit(item, body, version)


def rows(repetitions: int) -> list[Row]:
    """Return microseconds of the coordinator per rollout and round, by placement, then with SQLite. Also return the
    largest sizes."""
    found, largest = [], None
    for rule in ("packed", "fused", "split"):
        recording = record(load(None, [*_SETTINGS, f"placement.rule={rule}"]), 2)
        for count in ROLLOUTS:
            runs = [_in_memory(recording, count) for _ in range(repetitions)]
            found.append(_row(f"{rule}, {count:,} rollouts", runs, count, _MOST))
            largest = runs[-1] if rule == "packed" else largest
        if rule == "packed":
            found += [
                _row(f"packed, {count:,} rollouts, SQLite", _on_disk(recording, count, repetitions), count)
                for count in ROLLOUTS
            ]
    streamed = record(load(None, [*_SETTINGS, *_STREAMED]), 2)
    for count in ROLLOUTS:
        recording = _with_micro_batches(streamed, -(-count // _MICRO_BATCHES))
        runs = [_in_memory(recording, count) for _ in range(repetitions)]
        found.append(_row(f"packed, {count:,} rollouts, {_MICRO_BATCHES} micro-batches", runs, count, _MOST_STREAMED))
    assert largest is not None
    return [*found, *_sizes(largest)]


def _row(name: str, runs: list[Simulated], count: int, most: float | None = None) -> Row:
    spent = [1e6 * run.coordinator_s / count for run in runs]
    return Row(f"coordinator per rollout and round: {name}", spent, ".1f", "µs", most=most)


def _with_micro_batches(recording: Recording, rollouts: int) -> Recording:
    """Return the recording of a run with micro-batches of so many rollouts."""
    config = recording.plan.config
    pipeline = replace(config.pipeline, micro_batch=rollouts)
    plan = dataclasses.replace(recording.plan, config=replace(config, pipeline=pipeline))
    return dataclasses.replace(recording, plan=plan)


def _in_memory(recording: Recording, count: int) -> Simulated:
    return _driven(recording, count, VirtualLedger(VirtualClock()))


def _on_disk(recording: Recording, count: int, repetitions: int) -> list[Simulated]:
    runs = []
    for _ in range(repetitions):
        with tempfile.TemporaryDirectory() as folder, closing(SqliteLedger(Path(folder) / LEDGER_FILE)) as sqlite:
            runs.append(_driven(recording, count, SqliteBeside(VirtualClock(), sqlite)))
    return runs


def _driven(recording: Recording, count: int, ledger: VirtualLedger) -> Simulated:
    rounds = max(4, _PLAYED // count)
    return drive(recording, fit(recording.records, recording.slots), SimulatedSetting(count, rounds, count), ledger)


def _sizes(run: Simulated) -> list[Row]:
    """The largest message and item of rounds of the most rollouts, and the process's peak memory."""
    most = f"{ROLLOUTS[-1]:,} rollouts"
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        Row(f"largest request, {most}", [run.largest_request / 1e6], ".2f", "MB"),
        Row(f"largest item of the ledger, {most}", [run.largest_item / 1e3], ".0f", "KB"),
        Row("peak memory of this process", [peak_mib], ".0f", "MiB"),
    ]
