"""RLlib's script of `examples/from_rllib` and the same task here, in turn on one Ray cluster of this machine.

    python -m benchmarks.rllib.on_one_cluster [--python PYTHON] [--target RETURN] [--steps N] [--seeds N]

prints a record: seconds until a mean return of the episodes that a program samples, with seeds 1 to N. Each program
has its own batches, and both step 64 environments at once. A run that needs more than so many steps does not reach
the target. docs/results/from-rllib.json is older: it counts seconds of equal steps.

PYTHON is an interpreter of an environment that has `ray[rllib]` and `marless[ray,tasks,networks]`. The nodes of a
cluster must have all packages of both programs. Without PYTHON, an environment is made.
"""

import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import peers
from benchmarks.comparisons.conditions import Measuring
from benchmarks.launch import ROOT, environment
from benchmarks.table import spread, typical

EXAMPLE = ROOT / "examples" / "from_rllib"
PACKAGES = (*peers.PACKAGES, "-e", f"{ROOT}[ray,tasks,networks]")
WORKERS = 2
UNEVALUATED = ("evaluation.every=1000", "evaluation.final_episodes=2")
_VERSIONS = "import importlib.metadata as m, json; print(json.dumps({name: m.version(name) for name in %r}))"
_START_S = 120.0


@dataclass(frozen=True)
class Measured:
    """One program's training. `returns` are mean returns of exploring episodes, each after so many steps.
    `seconds_to_target` begin when it samples, and `whole_seconds` with its command. `load` is from before."""

    program: str
    seed: int
    seconds_to_target: float | None
    whole_seconds: float
    load: float
    returns: list[tuple[int, float]]


@dataclass(frozen=True)
class Place:
    """An interpreter that has both programs, the variables that lead them to the cluster, the target return, and their
    steps at most."""

    python: str
    variables: Mapping[str, str]
    target: float
    steps: int

    def run(self, command: Sequence[str], folder: Path) -> tuple[str, float]:
        """Return the output of the command, and its seconds."""
        began = time.perf_counter()
        done = subprocess.run(
            [self.python, *command], cwd=folder, env=self.variables, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout, time.perf_counter() - began


def until(target: float, points: Iterable[tuple[float, float | None]]) -> float | None:
    """Return the seconds of the first of these (seconds, return) that reaches the target, or None."""
    return next((seconds for seconds, mean in points if mean is not None and mean >= target), None)


def rllib(place: Place, folder: Path, seed: int) -> Measured:
    """The script. The first iteration is part of its seconds, its start-up is not."""
    load, _, _ = os.getloadavg()
    text, whole_s = place.run(
        [str(EXAMPLE / "rllib_script.py"), str(place.steps), str(place.target), str(seed)], folder
    )
    *lines, _ = map(json.loads, text.splitlines())
    returns = [(line["steps"], round(line["return"], 1)) for line in lines if line["return"] is not None]
    seconds = until(place.target, [(line["seconds"], line["return"]) for line in lines])
    return Measured("RLlib on Ray", seed, seconds, whole_s, load, returns)


def marless(place: Place, folder: Path, seed: int, backend: str) -> Measured:
    """Train with MARLess until the last step. Its seconds also begin when it samples."""
    load, _, _ = os.getloadavg()
    where = ("--backend", backend, "--workers", str(WORKERS), "--run", "moved")
    settings = (str(EXAMPLE / "spread.toml"), f"seed={seed}", f"stop.env_steps={place.steps}", *UNEVALUATED)
    _, whole_s = place.run(["-m", "marless.cli.app", "train", *settings, *where], folder)
    summary = json.loads((folder / "runs/moved/summary.json").read_text())
    lines = [json.loads(line) for line in (folder / "runs/moved/metrics.jsonl").read_text().splitlines()]
    returns = [(line["env_steps"], round(line["return_mean"], 1)) for line in lines]
    start_s = summary["start_up_seconds"]
    seconds = until(place.target, [(line["seconds"] - start_s, line["return_mean"]) for line in lines])
    return Measured(f"marless, --backend {backend}", seed, seconds, whole_s, load, returns)


def on_ray(place: Place, folder: Path, seed: int) -> Measured:
    """Ours on the cluster."""
    return marless(place, folder, seed, "ray")


def on_this_machine(place: Place, folder: Path, seed: int) -> Measured:
    """Ours without a cluster."""
    return marless(place, folder, seed, "local")


PROGRAMS: tuple[Callable[[Place, Path, int], Measured], ...] = (rllib, on_ray, on_this_machine)


@contextmanager
def cluster(python: str) -> Iterator[dict[str, str]]:
    """Give a cluster of this machine's own network, without tokens, as the variables that lead a program to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    settings = {
        "PYTHONPATH": str(EXAMPLE),  # workers of both programs find the modules of the example
        "RAY_worker_niceness": "0",  # by default 15, which a driver that learns by itself does not have
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    variables = {**environment(), **settings, "RAY_ADDRESS": address}
    ray = [python, "-m", "ray.scripts.scripts"]
    where = ["--node-ip-address=127.0.0.1", f"--port={address.rpartition(':')[2]}", f"--num-cpus={WORKERS}"]
    start = [*ray, "start", "--head", "--block", "--include-dashboard=false", *where]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        # Its address ends with it, and Ray cannot find it on this machine afterwards.
        own = {name: value for name, value in variables.items() if name != "RAY_ADDRESS"} | {"RAY_TMPDIR": folder}
        head = subprocess.Popen(start, env=own, stdout=sys.stderr)
        stack.callback(head.wait)
        stack.callback(head.terminate)
        deadline = time.monotonic() + _START_S
        while subprocess.run([*ray, "health-check", "--address", address], env=variables, check=False).returncode:
            if head.poll() is not None or time.monotonic() > deadline:
                sys.exit("Ray did not start")
        yield variables


def main() -> None:
    """All programs in turn, with one seed after the other."""
    parser = ArgumentParser()
    parser.add_argument("--python", help="an interpreter that has both programs")
    parser.add_argument("--target", type=float, default=-46.0)
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        python = options.python or str(peers.installed(Path(folder), PACKAGES))
        found = record(python, options.target, options.steps, options.seeds)
    print(msgspec.json.format(json.dumps(found), indent=1))
    print(*summary_lines(found["runs"]), sep="\n", file=sys.stderr)


def summary_lines(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each program. A run that does not reach the target counts as the slowest."""
    by_program: dict[str, list[float]] = {}
    for run in runs:
        seconds = run["seconds_to_target"]
        by_program.setdefault(run["program"], []).append(math.inf if seconds is None else seconds)
    return [
        f"{program}: reached in {sum(map(math.isfinite, seconds))} of {len(seconds)} seeds,"
        f" in {typical(seconds, '.1f', ' s')} ({spread(seconds, '.1f')})"
        for program, seconds in by_program.items()
    ]


def record(python: str, target: float, steps: int, seeds: int) -> dict[str, Any]:
    """Return the measurements, and their place."""
    runs, measuring = list[dict[str, Any]](), Measuring()
    with cluster(python) as variables:
        place = Place(python, variables, target, steps)
        for seed in range(1, seeds + 1):
            for program in PROGRAMS:
                with tempfile.TemporaryDirectory() as folder:
                    runs.append(asdict(program(place, Path(folder), seed)))
                print(json.dumps({**runs[-1], "returns": runs[-1]["returns"][-1:]}), file=sys.stderr)
    names = ("ray", "gymnasium", "pettingzoo", "mpe2", "torch", "numpy")
    versions = subprocess.run([python, "-c", _VERSIONS % (names,)], check=True, stdout=subprocess.PIPE).stdout
    conditions = msgspec.structs.asdict(measuring.conditions())
    return {**conditions, "versions": json.loads(versions), "target": target, "steps": steps, "runs": runs}


if __name__ == "__main__":
    main()
