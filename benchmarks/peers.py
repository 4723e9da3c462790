"""Measures another framework on this machine: RLlib from PyPI, installed into a temporary virtual environment."""

import json
import os
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

WANTED = "BENCH_PEERS"
PACKAGES = ("ray[rllib]>=2.40", "torch", "mpe2>=1.0", "pettingzoo>=1.25")
SECONDS, RUNNERS = 60.0, 2
_SCRIPT = Path(__file__).with_name("rllib") / "loop.py"


def wanted() -> bool:
    """Whether the user enabled peers, which take minutes and gigabytes."""
    return os.environ.get(WANTED) == "1"


def installed(folder: Path, packages: Sequence[str]) -> Path:
    """The interpreter of a new environment in the folder that has these arguments of pip."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-qq", *packages], check=True)
    return python


def rllib_rate() -> float:
    """RLlib's environment steps per second in training, without its start-up."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(installed(Path(folder), PACKAGES)), str(_SCRIPT), str(SECONDS), str(RUNNERS)]
        done = subprocess.run(command, check=True, cwd=folder, stdout=subprocess.PIPE, text=True)
        return float(json.loads(done.stdout.splitlines()[-1])["env_steps_per_second"])
