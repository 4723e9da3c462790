"""Trains the same runs in several ways, and measures each: makespan, busy slots, memory, fairness, weights."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.launch import ROOT
from benchmarks.memory import family, proportional_kib

MARLESS = (sys.executable, "-m", "marless.cli.app")
_POLL_S = 0.5


@dataclass
class Measured:
    """One way to train all runs. `seconds` of each run is from its first task to its last, `served_s` of each owner
    when half of all runs had ended."""

    makespan_s: float
    busy: float
    peak_mib: float
    weights: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)


def study(file: str, environment: Mapping[str, str]) -> Measured:
    """The runs of a study's file."""
    with tempfile.TemporaryDirectory(prefix="pool-") as folder:
        return study_in(Path(folder), file, environment)


def study_in(folder: Path, file: str, environment: Mapping[str, str]) -> Measured:
    """The same, in a folder that is kept."""
    folder.mkdir(exist_ok=True)
    (folder / "measured.toml").write_text(file)
    began = time.monotonic()
    process = _begin(["study", "measured.toml", "--json"], folder, environment)
    peak = _peak_mib([process])
    makespan_s = time.monotonic() - began
    events = [json.loads(line) for line in (folder / "output").read_text().splitlines()]
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, process.args)
    ends = {event["name"]: event for event in events if event["event"] == "run"}
    weights = _weights(folder / "studies" / "measured" / "runs")
    seconds = {name: end["seconds"] for name, end in ends.items()}
    return Measured(makespan_s, events[-1]["busy"], peak, weights, seconds, events)


def processes(commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], *options: str) -> Measured:
    """Run each run as a separate command with these `options`, all at once."""
    with tempfile.TemporaryDirectory(prefix="pool-") as folder:
        began = time.monotonic()
        started = [
            _begin(["train", *settings, "--run", name, *options], Path(folder), environment)
            for name, settings in commands.items()
        ]
        peak = _peak_mib(started)
        if any(process.wait() for process in started):
            raise RuntimeError("a run failed")
        return Measured(time.monotonic() - began, 0.0, peak, _weights(Path(folder) / "runs"))


def shell_loop(commands: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> float:
    """Seconds of a loop in a shell: one command after another, each with the default workers."""
    with tempfile.TemporaryDirectory(prefix="pool-") as folder:
        began = time.monotonic()
        for name, settings in commands.items():
            if _begin(["train", *settings, "--run", name], Path(folder), environment).wait():
                raise RuntimeError("a run failed")
        return time.monotonic() - began


def _begin(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    # A single run draws a picture at its end, but a study does not, so pictures are off.
    paths = [ROOT / "tests/support/without_pictures", ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            [*MARLESS, *arguments],
            cwd=folder,
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(map(str, paths))},
            stdout=output,
            stderr=subprocess.DEVNULL,
        )


def _peak_mib(started: Sequence["subprocess.Popen[bytes]"]) -> float:
    """The most memory of all these processes and their descendants together until they end, MiB."""
    peak = 0
    while any(process.poll() is None for process in started):
        alive = [process.pid for process in started if process.poll() is None]
        peak = max(peak, sum(proportional_kib(one) for pid in alive for one in family(pid)))
        time.sleep(_POLL_S)
    return peak / 1024


def _weights(runs: Path) -> dict[str, str]:
    """The hash of the weights of each finished run."""
    found = (json.loads(path.read_text()) for path in runs.glob("*/summary.json"))
    return {one["run"]: one["weights_sha256"] for one in found if one["status"] == "finished"}
