"""Overhead of the emulated account over this machine's workers, and the coordinator's time in large rounds."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.launch import environment
from benchmarks.table import Row, quotients
from benchmarks.training import MAPPO

ON = ("--backend", "emulated")
# A task and networks with little computation, so that the traffic of rollouts dominates.
LARGE = ("task.name=toy/signal", "algorithm.hidden=[8]", "actors.num_envs=1", "evaluation.final_episodes=4")
ROUNDS = 40
_DEFAULT = (MAPPO, f"stop.rounds={ROUNDS}", "evaluation.every=1000", "evaluation.final_episodes=4")
# A function's memory in the template.
_MEMORY_MB = 1769


def rounds(repetitions: int) -> list[Row]:
    """Return milliseconds of an attached round of the default task, with local functions and in the emulated account.
    Also seconds from the command to the first sampling task when no account runs yet."""
    here, there, start = [], [], []
    for seed in range(1, repetitions + 1):
        with tempfile.TemporaryDirectory() as folder:
            run = (f"seed={seed}", *_DEFAULT)
            here.append(_round_ms(_trained(folder, "here", *run)))
            found = _trained(folder, "there", *run, *ON)
            there.append(_round_ms(found))
            start.append(found["start_up_seconds"])
    return [
        Row("round of the default task, 2 workers here", here, ".1f", "ms"),
        Row("round of the default task, emulated account", there, ".1f", "ms", quotients(there, here), "here"),
        Row("command to sampling, account started and stack deployed", start, ".1f", "s"),
    ]


def rollouts(sizes: tuple[int, ...]) -> list[Row]:
    """Milliseconds of the coordinator function per rollout, in detached rounds of several sizes, without starts."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, _account(folder):
        _detached(folder, "warm", 10)
        for size in sizes:
            spent = _coordinator_ms(folder, _detached(folder, f"of-{size}", size))
            rows.append(
                Row(f"detached round of {size:,} rollouts, coordinator per rollout", [spent / size], ".1f", "ms")
            )
    return rows


@contextmanager
def _account(folder: str) -> Iterator[None]:
    _marless(folder, "cloud", "deploy", *ON)
    try:
        yield
    finally:
        _marless(folder, "cloud", "teardown", *ON, "--yes", "--force")


def _detached(folder: str, name: str, size: int) -> str:
    _marless(folder, "train", *LARGE, "stop.rounds=1", f"actors.rollouts={size}", *ON, "--detach", "--run", name)
    time.sleep(1.0)
    _marless(folder, "status", "--follow", name)
    return name


def _coordinator_ms(folder: str, name: str) -> float:
    bill = json.loads((Path(folder) / "runs" / name / "bill.json").read_text())
    (line,) = [line for line in bill["lines"] if line["name"] == "coordinator compute"]
    return float(line["quantity"]) * 1024 / _MEMORY_MB * 1000


def _trained(folder: str, name: str, *arguments: str) -> dict[str, float]:
    _marless(folder, "train", *arguments, "--run", name)
    found: dict[str, float] = json.loads((Path(folder) / "runs" / name / "summary.json").read_text())
    return found


def _round_ms(summary: dict[str, float]) -> float:
    return summary["train_seconds"] / summary["rounds"] * 1000


def _marless(folder: str, *arguments: str) -> None:
    subprocess.run(
        [str(Path(sys.executable).with_name("marless")), *arguments],
        cwd=folder,
        env=environment(),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
