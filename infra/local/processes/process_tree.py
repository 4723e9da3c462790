"""Processes that other processes have started: adopted when their parents end, and ended for good. Linux only."""

import ctypes
import os
import signal
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

from marless.infra.local.own_process import stat_fields

# prctl(2), since Linux 3.4.
_PR_SET_CHILD_SUBREAPER = 36
# Processes that start others faster than they can be ended are given up after this.
_PATIENCE_S = 5.0
# /proc/PID/stat counts in these (proc(5), fields 14 to 17).
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def adopt_orphans() -> None:
    """When a process below this one loses its parent, it becomes a child of this one, in any session."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children(spared_pids: Container[int] = ()) -> None:
    """Kills and reaps all children but those `spared_pids`, and with `adopt_orphans` all that these have started."""
    until = time.monotonic() + _PATIENCE_S
    while (children := [pid for pid in _children() if pid not in spared_pids]) and time.monotonic() < until:
        for pid in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> Iterator[int]:
    own_pid = str(os.getpid())
    pids = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return (pid for pid in pids if _field(pid, 1) == own_pid)


def start_time(pid: int) -> str:
    """Return when a process began, which tells it from a later one of its number, or "" if it is gone."""
    return _field(pid, 19)


def processor_s(pid: int) -> float:
    """Processor seconds of a process and of all that it has started, as far as the system says so."""
    seconds = 0.0
    with suppress(OSError, IndexError):
        seconds = sum(map(int, stat_fields(pid)[11:15])) / _TICKS_PER_S
    with suppress(OSError):
        for thread in os.scandir(f"/proc/{pid}/task"):
            with suppress(OSError):
                children = Path(f"{thread.path}/children").read_text(encoding="ascii").split()
                seconds += sum(processor_s(int(child)) for child in children)
    return seconds


def has_ended(pid: int) -> bool:
    """Return True if the process is gone, or waits for its parent to notice its end."""
    return _field(pid, 0) in ("", "Z", "X")


def _field(pid: int, place: int) -> str:
    """A field after the name in /proc/PID/stat (proc(5)), or "" if there is no such process."""
    try:
        return stat_fields(pid)[place]
    except (OSError, IndexError):
        return ""


def end_process(pid: int, began: str) -> None:
    """Kills the process and its group, if it is the one that began then."""
    try:
        handle = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return
    try:
        # It cannot be reaped unnoticed from here on: a signal to the handle reaches it or no process.
        if began and start_time(pid) == began:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
