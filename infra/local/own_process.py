"""Memory, age and working time of this process."""

import os
import resource
import sys
import time
from pathlib import Path


def peak_mb() -> float:
    """Peak memory of this process, MiB.

    On Linux `ru_maxrss` begins at the size of the process that started this one, so the kernel's status page is read.
    """
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_bytes()
        start = status.index(b"VmHWM:") + 6
        return int(status[start : status.index(b"kB", start)]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


def age_s() -> float:
    """Seconds since this process began, the interpreter's own start included; 0 where the system does not report it."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return 0.0


class OwnTime:
    """Working time of a process that serves one call after the other, each to be billed by what it writes down.

    What passes after a call has written that down is added to the next call's, and so is the start of the process.
    """

    def __init__(self) -> None:
        self._start_ms, self._owed_ms = age_s() * 1000, 0.0
        self._mark, self._taken = time.perf_counter(), False

    def begin(self) -> None:
        """A call begins."""
        self._mark, self._taken = time.perf_counter(), False

    def take(self) -> tuple[float, float]:
        """Milliseconds of work and of start-up that nobody has taken yet; none from the second time in a call on."""
        if self._taken:
            return 0.0, 0.0
        self.end()
        taken = self._owed_ms, self._start_ms
        self._owed_ms, self._start_ms, self._taken = 0.0, 0.0, True
        return taken

    def waive(self) -> None:
        """The call that began, and the start that it paid for, are billed elsewhere or to nobody; it does not end."""
        self._start_ms, self._taken = 0.0, True

    def end(self) -> None:
        """The call ends; its untaken time is kept."""
        now = time.perf_counter()
        self._owed_ms += (now - self._mark) * 1000
        self._mark = now


def cores() -> int:
    """Cores this process may use: the default number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
