"""The memory of a process and its descendants. It is known on Linux only."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def used_mb(pid: int, limit_mb: int) -> int:
    """MiB: the process's peak, or the present memory of it and its descendants if that is more, or 0 if it has ended.

    Pages that they share count for each of them. Above `limit_mb`, it is worth the time to count every page once.
    """
    tree = list(_tree(pid))
    resident_kb = sum(_field(process, "status", b"\nVmRSS:") for process in tree)
    if resident_kb > 1024 * limit_mb and len(tree) > 1:
        resident_kb = sum(_field(process, "smaps_rollup", b"\nPss:") for process in tree)
    return round(max(_field(pid, "status", b"\nVmHWM:"), resident_kb) / 1024)


def _tree(pid: int) -> Iterator[int]:
    """The process and its descendants."""
    yield pid
    with suppress(OSError):  # it has ended
        for thread in os.scandir(f"/proc/{pid}/task"):
            for child in Path(f"{thread.path}/children").read_bytes().split():
                yield from _tree(int(child))


def _field(pid: int, file: str, name: bytes) -> int:
    """A field in kB of a file about the process. 0 if it has ended or the system has no such file."""
    try:
        text = Path(f"/proc/{pid}/{file}").read_bytes()
        start = text.index(name) + len(name)
    except (OSError, ValueError):
        return 0
    return int(text[start : text.index(b"kB", start)])
