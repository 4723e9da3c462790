"""Time from the command to the first environment steps, with files in the page cache (warm) and without (cold)."""

import os
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.launch import ROOT, environment
from benchmarks.training import MAPPO, UNEVALUATED, command

# A rollout is stored after all its steps, so the measured time ends some milliseconds after the first step.
FIRST_ROLLOUT = "runs/*/objects/rounds/*/sample/*.trajectory.safetensors"
PATIENCE_S = 60.0
POLL_S = 0.002


def seconds_to_first_rollout(workers: int, cold: bool) -> float:
    """Starts a run of one round and returns the seconds until its first rollout is stored."""
    if cold:
        forget(files())
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        arguments = command(workers, MAPPO, *UNEVALUATED, "stop.rounds=1")
        process = subprocess.Popen(arguments, cwd=folder, env=environment(), stdout=subprocess.DEVNULL)
        try:
            while not any(Path(folder).glob(FIRST_ROLLOUT)):
                if time.perf_counter() - began > PATIENCE_S or process.poll() is not None:
                    raise RuntimeError(f"no rollout within {PATIENCE_S:g} s of the command, or before it ended")
                time.sleep(POLL_S)
            return time.perf_counter() - began
        finally:
            process.wait(PATIENCE_S)


def files() -> Iterable[Path]:
    """The files of the interpreter, of the installed packages and of this project."""
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib")}
    for folder in (*map(Path, installed), ROOT / "functions", ROOT / "coordinator", ROOT / "infra"):
        yield from (path for path in folder.rglob("*") if path.is_file())


def forget(paths: Iterable[Path]) -> None:
    """Drops the files' pages from the page cache. Pages mapped by a running program stay, so cold is a lower bound."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
