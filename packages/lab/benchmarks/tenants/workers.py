"""What the worker processes of a study take of memory."""

import subprocess
import time
from pathlib import Path

from benchmarks.launch import environment
from benchmarks.memory import PROCESSES, family, proportional_kib
from benchmarks.pool.measurement import MARLESS

_POLL_S = 0.2


def peak_mib(file: str, folder: Path) -> float:
    """Trains a study; the most memory of its workers together, what they share counted once. Raises
    `CalledProcessError` if it fails."""
    (folder / "study.toml").write_text(file)
    process = subprocess.Popen(
        [*MARLESS, "study", "study.toml", "--out", f"out-{time.monotonic_ns()}"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(proportional_kib, _workers(process.pid))))
        time.sleep(_POLL_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return peak / 1024


def _workers(study: int) -> list[int]:
    """The forks of the study's zygotes: descendants of such a one that have its command line."""
    below = family(study)
    return sorted({pid for root in below if _is_zygote(root) for pid in family(root)[1:] if _is_zygote(pid)})


def _is_zygote(pid: int) -> bool:
    try:
        return b"marless.infra.local.processes.zygote" in (PROCESSES / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False
