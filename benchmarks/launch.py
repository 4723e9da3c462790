"""Runs each measurement in a separate process, one at a time, with one thread per process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def environment() -> dict[str, str]:
    """This process's environment, with one thread per process."""
    return {**os.environ, **_THREADS}


def measured(module: str, *arguments: object) -> Any:
    """The JSON that ``python -m benchmarks.<module>`` prints; raises `CalledProcessError` if it fails."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(command, check=True, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])
