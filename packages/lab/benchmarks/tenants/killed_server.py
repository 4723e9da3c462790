"""Kill a lab's server again and again. Its runs must end with the weights of the same runs alone.

Type: python -m benchmarks.tenants.killed_server FOLDER
"""

import json
import math
import random
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import marless
from marless_server import connect
from marless_server.client import OVER, Server
from marless_server.pool.driver import run_root
from marless_server.serving import stored
from marless_server.store.owners import Owner

# A server is killed so many seconds after a round of any run, at most.
_LONGEST_S = 4.0


def main(arguments: list[str] | None = None) -> int:
    """Run the experiment, and print the number of equal runs. Return 0 if all are equal."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--owners", type=int, default=8)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args(arguments)
    names = [f"owner{number}" for number in range(options.owners)]
    with stored(options.folder / "server") as (_, owners):
        for name in names:
            owners.add(Owner(name=name))
            (options.folder / name).write_text(owners.new_token(name))
    configs = [_config(seed, options.rounds) for seed in range(options.runs)]
    runs, kills = _serve(options.folder, names, configs, options.kills)
    equal = sum(
        _weights(run_root(options.folder / "server/runs", run) / run) == _weights(_alone(config, run))
        for run, config in zip(runs, configs, strict=True)
    )
    print(f"{equal} of {len(runs)} runs equal the runs alone, after {kills} kills of the server")
    return int(equal < len(runs) or kills < options.kills)


def _serve(folder: Path, names: list[str], configs: list[dict[str, Any]], most: int) -> tuple[list[str], int]:
    """Serve runs until all have ended, with `most` kills at random moments. Return the runs and the kills."""
    moments, runs, kills = random.Random(1), list[str](), 0
    while True:
        process, url = _start(folder / "server")
        clients = [connect(url, folder / name) for name in names]
        if not runs:
            runs = [clients[place % len(clients)].submit(config).id for place, config in enumerate(configs)]
        before = _state(clients)
        kill_at = math.inf
        while time.monotonic() < kill_at and not (state := _state(clients)).is_over:
            if kills < most and state.rounds > before.rounds and kill_at == math.inf:
                kill_at = time.monotonic() + moments.uniform(0, _LONGEST_S)
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM if state.is_over else signal.SIGKILL)
        process.wait()
        if state.is_over:
            return runs, kills
        kills += 1


def _start(data: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "marless.cli.app", "serve", "--data", str(data), "--address", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--slots", "2"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[2]


def _state(clients: list[Server]) -> "_State":
    rows = [row for client in clients for row in client.runs()]
    return _State(sum(row["round"] for row in rows), all(row["status"] in OVER for row in rows))


class _State(NamedTuple):
    """The rounds of all runs together, and whether all have ended."""

    rounds: int
    is_over: bool


def _config(seed: int, rounds: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "task": {"name": "toy/signal"},
        "algorithm": {"hidden": [8]},
        "actors": {"num_envs": 8},
        "stop": {"rounds": rounds},
        "evaluation": {"every": 20, "episodes": 4, "final_episodes": 4},
    }


def _alone(config: Mapping[str, Any], run: str) -> Path:
    return marless.train(config, run=f"alone-{run}", quiet=True, workers=1).folder


def _weights(folder: Path) -> str:
    weights: str = json.loads((folder / "summary.json").read_text())["weights_sha256"]
    return weights


if __name__ == "__main__":
    sys.exit(main())
