"""Ways to train runs that arrive one after another: on a server, and by commands without one."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.launch import ROOT, environment
from benchmarks.memory import family, proportional_kib
from benchmarks.pool.measurement import MARLESS
from marless.coordinator.config.nested_tables import nest
from marless_server import connect
from marless_server.pool.driver import run_root
from marless_server.serving import stored
from marless_server.store.owners import Owner
from marless_server.store.runs import Runs

_POLL_S, _MEMORY_S = 0.05, 1.0


@dataclass(frozen=True)
class Job:
    """A run with its settings. It arrives after `at_s` seconds."""

    at_s: float
    owner: int
    settings: Mapping[str, object]


@dataclass
class Outcome:
    """One way to train all runs.

    Attributes:
        seconds: of each run, from its arrival to its result
        weights: the hash of each run's weights
        length_s: seconds until the last result
        peak_mib: the most memory of all processes together, MiB PSS
        served_s: seconds of slots that served tasks. Only a server counts them
        unfair_s: seconds with an owner who had a run in the queue, and less than a fair share of the places
    """

    seconds: dict[int, float] = field(default_factory=dict)
    weights: dict[int, str] = field(default_factory=dict)
    length_s: float = 0.0
    peak_mib: float = 0.0
    served_s: float = 0.0
    unfair_s: float = 0.0


class _Day:
    """The time since the day began, and the memory that processes take."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome, self._began, self._looked = outcome, time.monotonic(), 0.0

    def now_s(self) -> float:
        """Return the seconds since the day began."""
        return time.monotonic() - self._began

    def wait(self, processes: Sequence["subprocess.Popen[str]"]) -> float:
        """Wait for a moment, and look at the memory now and then. Return the seconds that passed since the last look,
        0 without one."""
        time.sleep(_POLL_S)
        if (passed := self.now_s() - self._looked) < _MEMORY_S:
            return 0.0
        self._looked = self.now_s()
        total = sum(proportional_kib(one) for process in processes for one in family(process.pid))
        self._outcome.peak_mib = max(self._outcome.peak_mib, total / 1024)
        return passed


def by_commands(jobs: Sequence[Job], queues: Sequence[Hashable], *options: str) -> Outcome:
    """Train each run by its own command. Runs with the same entry in `queues` train one after another."""
    outcome, waiting = Outcome(), dict[Hashable, deque[int]]()
    arrivals, trains = deque(range(len(jobs))), dict[int, subprocess.Popen[str]]()
    with tempfile.TemporaryDirectory(prefix="service-") as folder:
        day = _Day(outcome)
        while len(outcome.seconds) < len(jobs):
            while arrivals and jobs[arrivals[0]].at_s <= day.now_s():
                waiting.setdefault(queues[arrivals[0]], deque()).append(arrivals.popleft())
            for number in [number for number, process in trains.items() if process.poll() is not None]:
                if trains.pop(number).returncode:
                    raise RuntimeError(f"run {number} failed")
                outcome.seconds[number] = day.now_s() - jobs[number].at_s
            busy = {queues[number] for number in trains}
            for queue in [queue for queue in waiting if waiting[queue] and queue not in busy]:
                number = waiting[queue].popleft()
                trains[number] = _command(jobs[number], f"job{number}", Path(folder), *options)
            day.wait([*trains.values()])
        outcome.length_s = day.now_s()
        outcome.weights = {number: _weights(Path(folder) / f"runs/job{number}") for number in outcome.seconds}
    return outcome


def by_server(jobs: Sequence[Job], slots: int) -> Outcome:
    """Train the runs on a server. Each owner submits by HTTP."""
    outcome, names, arrivals = Outcome(), dict[str, int](), deque(range(len(jobs)))
    with tempfile.TemporaryDirectory(prefix="service-") as name, _server(Path(name), jobs, slots) as (url, process):
        folder = Path(name)
        with stored(folder / "server") as (database, _):
            runs, day = Runs(database), _Day(outcome)
            while len(outcome.seconds) < len(jobs):
                while arrivals and jobs[arrivals[0]].at_s <= day.now_s():
                    job = jobs[number := arrivals.popleft()]
                    server = connect(url, folder / f"owner{job.owner}")
                    names[server.submit(nest(job.settings)).id] = number
                rows = runs.open()
                for number in set(names.values()) - outcome.seconds.keys() - {names[row.id] for row in rows}:
                    outcome.seconds[number] = day.now_s() - jobs[number].at_s
                outcome.unfair_s += day.wait([process]) * _is_unfair(
                    Counter(row.owner for row in rows if row.status == "running"),
                    {row.owner for row in rows if row.status == "queued"},
                )
            outcome.length_s = day.now_s()
            outcome.served_s = sum(usage.slot_seconds for usage in runs.used_today().values())
        for run, number in names.items():
            outcome.weights[number] = _weights(run_root(folder / "server/runs", run) / run)
    return outcome


@contextmanager
def _server(folder: Path, jobs: Sequence[Job], slots: int) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Start a server for owners with equal weights, and stop it."""
    with stored(folder / "server") as (_, owners):
        for owner in sorted({job.owner for job in jobs}):
            owners.add(Owner(name=f"owner{owner}", code=True))
            (folder / f"owner{owner}").write_text(owners.new_token(f"owner{owner}"))
    words = ["serve", "--data", "server", "--address", "127.0.0.1:0", "--slots", str(slots), "--at-once", "64"]
    process = _begin(words, folder, subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[2], process
    finally:
        process.terminate()
        process.wait()


def _is_unfair(trains: Mapping[str, int], waits: set[str]) -> bool:
    """Return whether one place, given to an owner who waits, would make the smallest share larger (max-min)."""
    return any(trains[other] > trains.get(owner, 0) + 1 for owner in waits for other in trains)


def _command(job: Job, name: str, folder: Path, *options: str) -> "subprocess.Popen[str]":
    file = folder / f"{name}.toml"
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in job.settings.items()))
    return _begin(["train", str(file), "--run", name, *options], folder, subprocess.DEVNULL)


def _begin(words: Sequence[str], folder: Path, output: int) -> "subprocess.Popen[str]":
    # A run without a server would draw a picture at its end.
    paths = [str(ROOT / "tests/support/without_pictures"), str(ROOT)]
    variables = {**environment(), "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen([*MARLESS, *words], cwd=folder, env=variables, stdout=output, stderr=sys.stderr, text=True)


def _weights(run: Path) -> str:
    weights: str = json.loads((run / "summary.json").read_text())["weights_sha256"]
    return weights
