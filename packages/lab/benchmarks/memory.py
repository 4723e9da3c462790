"""Peak memory of a process and its descendants: the sum of proportional set sizes, so shared pages count once."""

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")
POLL_S = 0.05


def peak_mib(command: Sequence[str], cwd: Path) -> float:
    """Runs `command` and returns the highest sum in MiB, sampled every `POLL_S` seconds (Linux only)."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(proportional_kib, family(process.pid))))
        time.sleep(POLL_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return peak / 1024


def family(root: int) -> list[int]:
    """`root` and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            # The command's name is in parentheses and may hold any character. The parent follows two fields later.
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found.extend(children.get(process, ()))
    return found


def proportional_kib(process: int) -> int:
    """The process's PSS in KiB. 0 if it has ended."""
    with suppress(OSError):
        for line in (PROCESSES / str(process) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
