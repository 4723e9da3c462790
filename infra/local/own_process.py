"""Memory, age and working time of this process, and the system's data on any process."""

import ctypes
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

# Of malloc.h.
_ARENA_MAX = -8


def peak_mb() -> float:
    """Peak memory of this process, MiB.

    On Linux `ru_maxrss` starts at the parent process's size, so VmHWM in /proc/self/status is read.
    """
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_bytes()
        start = status.index(b"VmHWM:") + 6
        return int(status[start : status.index(b"kB", start)]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


def resident_mb() -> float:
    """Present memory of this process, MiB, or 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize() / (1 << 20)
    except OSError:
        return 0.0


def limit_memory(megabytes: int) -> None:
    """Allocations beyond `megabytes` fail with `MemoryError`, if the system has such a limit. 0 is no limit.

    Linux counts private writable memory towards RLIMIT_DATA (getrlimit(2), since 4.7). Shared libraries cost nothing.
    """
    if megabytes and sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))


def share_freed_memory() -> None:
    """Let the threads of this process share freed memory. By default the GNU library keeps it for each thread, and
    short-lived threads leave tens of megabytes behind (mallopt(3), M_ARENA_MAX)."""
    with suppress(AttributeError, OSError):  # another library
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def expendable() -> None:
    """If memory runs out, let the system end this process before its parents. A crash leaves no dump of memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(b"500")


def stat_fields(process: int | Literal["self"]) -> list[str]:
    """The fields behind the name in /proc/PID/stat (proc(5)). Raises `OSError` if there is no such process, or file."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


def age_s() -> float:
    """Seconds since this process began, interpreter start included, or 0 if the system does not report it."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat_fields("self")[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return 0.0


def address() -> str:
    """Identifies this process on this machine until it is switched off, or '' if /proc lacks the data."""
    try:
        return f"{_machine()} {os.getpid()} {_began(os.getpid())}"
    except (OSError, IndexError):
        return ""


def has_ended(process: str) -> bool:
    """Return True if the process of this `address` is surely gone. It was on this machine, since it was last switched
    on, and its number is free or another process has it. False for one elsewhere."""
    where, _, began = process.rpartition(" ")
    machine, _, number = where.rpartition(" ")
    try:
        return machine == _machine() and number.isdecimal() and _began(int(number)) != began
    except FileNotFoundError:
        return True
    except (OSError, IndexError):
        return False


def _machine() -> str:
    """This boot of the machine, and the container: each counts its processes from 1."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"


def _began(number: int) -> str:
    """Return when a process began, in ticks since the machine did (proc(5), stat, field 22). It is '' for a process
    that has ended but waits for its parent to ask for its exit code."""
    fields = stat_fields(number)
    return "" if fields[0] in "ZX" else fields[19]


class OwnTime:
    """Working time of a process that serves calls one after the other, each billed by the time that it reports.

    Time after a call's report is added to the next call's, and so is the start of the process.
    """

    def __init__(self) -> None:
        self._start_ms, self._owed_ms = age_s() * 1000, 0.0
        self._mark, self._taken = time.perf_counter(), False

    def begin(self) -> None:
        """A call begins."""
        self._mark, self._taken = time.perf_counter(), False

    def take(self) -> tuple[float, float]:
        """Milliseconds of work and of start-up not yet reported, or (0, 0) from the second time in a call on."""
        if self._taken:
            return 0.0, 0.0
        self.end()
        unreported_ms = self._owed_ms, self._start_ms
        self._owed_ms, self._start_ms, self._taken = 0.0, 0.0, True
        return unreported_ms

    def waive(self) -> None:
        """Drops the time of the current call and of the process's start, which are billed elsewhere or not at all."""
        self._start_ms, self._taken = 0.0, True

    def end(self) -> None:
        """The call ends. Its unreported time is kept."""
        now = time.perf_counter()
        self._owed_ms += (now - self._mark) * 1000
        self._mark = now
