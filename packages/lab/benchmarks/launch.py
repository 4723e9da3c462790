"""Runs each measurement in a separate process, one at a time, with one thread per process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def environment() -> dict[str, str]:
    """This process's environment, with one thread per process."""
    return {**os.environ, **_THREADS}


def environment_with(site: Path, entry_point: str) -> dict[str, str]:
    """Install environments of these benchmarks in the new folder `site`, and return the environment that has it.

    `entry_point` is ``name = module:function``, or several such lines.
    """
    information = site / "benchmark_tasks-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: benchmark-tasks\nVersion: 1\n")
    (information / "entry_points.txt").write_text(f"[marless.environments]\n{entry_point}\n")
    return {**environment(), "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))}


def measured(module: str, *arguments: object) -> Any:
    """The JSON that ``python -m benchmarks.<module>`` prints. Raises `CalledProcessError` if it fails."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(command, check=True, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])
