"""``python -m benchmarks remote``: workers that dial in over loopback, against as many processes of this machine."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.launch import environment
from benchmarks.table import Row, quotients
from benchmarks.training import MAPPO, UNEVALUATED, trained

_SLOTS = 2
# By environment steps of a round: rollouts, rounds, and the least part of the speed.
_ROUNDS = {1_600: (1, 120, 0.85), 16_000: (10, 15, 0.95)}


def rows(repetitions: int) -> list[Row]:
    """Environment steps a second of the default run, in turn on both."""
    return [row for steps in _ROUNDS for row in _rows(steps, repetitions)]


def _rows(steps: int, repetitions: int) -> list[Row]:
    rollouts, rounds, least = _ROUNDS[steps]
    settings = (MAPPO, *UNEVALUATED, f"actors.rollouts={rollouts}", f"stop.rounds={rounds}")
    here, there = [], []
    with _agent() as address:
        for _ in range(repetitions):
            here.append(trained(_SLOTS, *settings).env_steps_per_second)
            there.append(trained(_SLOTS, *settings, "--machines", address).env_steps_per_second)
    name = f"rounds of {steps:,} steps, {_SLOTS} workers"
    far = f"{name} that have dialled in, env steps/s"
    return [
        Row(f"{name} of this machine, env steps/s", here),
        Row(far, there, ratios=quotients(there, here), against="this machine's", least=least),
    ]


@contextmanager
def _agent() -> Iterator[str]:
    """Keep workers dialled in. Gives the address for a driver to listen."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    os.environ["MARLESS_TOKEN"] = secrets.token_hex(16)
    marless = str(Path(sys.executable).with_name("marless"))
    agent = subprocess.Popen(
        [marless, "worker", address, "--workers", str(_SLOTS)], env=environment(), stderr=subprocess.DEVNULL
    )
    try:
        yield address
    finally:
        agent.terminate()
        agent.wait()
