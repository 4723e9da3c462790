"""RLlib's script of `examples/from_rllib` and the same task here, in turn on one Ray cluster of this machine.

    python -m benchmarks.rllib.on_one_cluster [--python PYTHON] [--steps N] [--repetitions N]

prints the record of docs/results/from-rllib.json. PYTHON is an interpreter of an environment that has `ray[rllib]` and
`marless[ray,tasks,networks]`, as the nodes of a cluster must have what both programs import; without it one is made.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import peers
from benchmarks.launch import ROOT, environment

EXAMPLE = ROOT / "examples" / "from_rllib"
PACKAGES = (*peers.PACKAGES, "-e", f"{ROOT}[ray,tasks,networks]")
WORKERS = 2
UNEVALUATED = ("evaluation.every=1000", "evaluation.final_episodes=2")
_VERSIONS = "import importlib.metadata as m, json; print(json.dumps({name: m.version(name) for name in %r}))"
_START_S = 120.0


@dataclass(frozen=True)
class Measured:
    """One program's training: `returns` are those of the episodes sampled until so many steps, exploring; `seconds`
    begin when it samples, `whole_seconds` with its command; `load` is the machine's before."""

    program: str
    steps: int
    seconds: float
    whole_seconds: float
    load: float
    returns: list[tuple[int, float]]


@dataclass(frozen=True)
class Place:
    """An interpreter that has both programs, the variables with which they find the cluster, and their steps."""

    python: str
    variables: Mapping[str, str]
    steps: int

    def run(self, command: Sequence[str], folder: Path) -> tuple[str, float]:
        """What the command prints, and its seconds."""
        began = time.perf_counter()
        done = subprocess.run(
            [self.python, *command], cwd=folder, env=self.variables, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout, time.perf_counter() - began


def rllib(place: Place, folder: Path) -> Measured:
    """The script; the first iteration is part of its seconds, its start-up is not."""
    load, _, _ = os.getloadavg()
    text, whole_s = place.run([str(EXAMPLE / "rllib_script.py"), str(place.steps)], folder)
    *lines, _ = map(json.loads, text.splitlines())
    returns = [(line["steps"], round(line["return"], 1)) for line in lines if line["return"] is not None]
    return Measured("RLlib on Ray", lines[-1]["steps"], lines[-1]["seconds"], whole_s, load, returns)


def marless(place: Place, folder: Path, backend: str) -> Measured:
    """The run; its seconds, too, begin when it samples."""
    load, _, _ = os.getloadavg()
    where = ("--backend", backend, "--workers", str(WORKERS), "--run", "moved")
    settings = (str(EXAMPLE / "spread.toml"), f"stop.env_steps={place.steps}", *UNEVALUATED)
    _, whole_s = place.run(["-m", "marless.cli.app", "train", *settings, *where], folder)
    summary = json.loads((folder / "runs/moved/summary.json").read_text())
    lines = [json.loads(line) for line in (folder / "runs/moved/metrics.jsonl").read_text().splitlines()]
    returns = [(line["env_steps"], round(line["return_mean"], 1)) for line in lines]
    seconds = lines[-1]["seconds"] - summary["start_up_seconds"]
    return Measured(f"marless, --backend {backend}", summary["env_steps"], seconds, whole_s, load, returns)


def on_ray(place: Place, folder: Path) -> Measured:
    """Ours on the cluster."""
    return marless(place, folder, "ray")


def on_this_machine(place: Place, folder: Path) -> Measured:
    """Ours without a cluster."""
    return marless(place, folder, "local")


PROGRAMS: tuple[Callable[[Place, Path], Measured], ...] = (rllib, on_ray, on_this_machine)


@contextmanager
def cluster(python: str) -> Iterator[dict[str, str]]:
    """A cluster of this machine's own network, without tokens; the variables by which a program finds it."""
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
        # Its address ends with it, and is not what Ray finds on this machine afterwards.
        own = {name: value for name, value in variables.items() if name != "RAY_ADDRESS"} | {"RAY_TMPDIR": folder}
        head = subprocess.Popen(start, env=own, stdout=sys.stderr)
        stack.callback(head.wait)
        stack.callback(head.terminate)
        until = time.monotonic() + _START_S
        while subprocess.run([*ray, "health-check", "--address", address], env=variables, check=False).returncode:
            if head.poll() is not None or time.monotonic() > until:
                sys.exit("Ray did not start")
        yield variables


def main() -> None:
    """All programs in turn, as often as was asked for."""
    parser = ArgumentParser()
    parser.add_argument("--python", help="an interpreter that has both programs")
    parser.add_argument("--steps", type=int, default=48_000)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        python = options.python or str(peers.installed(Path(folder), PACKAGES))
        print(msgspec.json.format(json.dumps(record(python, options.steps, options.repetitions)), indent=1))


def record(python: str, steps: int, repetitions: int) -> dict[str, Any]:
    """What was measured, and where."""
    runs = list[dict[str, Any]]()
    with cluster(python) as variables:
        place = Place(python, variables, steps)
        for _ in range(repetitions):
            for program in PROGRAMS:
                with tempfile.TemporaryDirectory() as folder:
                    runs.append(asdict(program(place, Path(folder))))
                print(json.dumps({**runs[-1], "returns": runs[-1]["returns"][-1:]}), file=sys.stderr)
    names = ("ray", "gymnasium", "pettingzoo", "mpe2", "torch", "numpy")
    versions = subprocess.run([python, "-c", _VERSIONS % (names,)], check=True, stdout=subprocess.PIPE).stdout
    date = time.strftime("%Y-%m-%d")
    return {"date": date, "cores": os.cpu_count(), "versions": json.loads(versions), "runs": runs}


if __name__ == "__main__":
    main()
