"""Whose process is at the other end of a connection on this machine (Linux)."""

import os
from contextlib import suppress
from pathlib import Path


def process_of(port: int, server_port: int) -> int | None:
    """The process that connected from `port` of 127.0.0.1 to `server_port` of it; None where it has gone.

    The kernel lists connections with the inodes of their sockets (proc(5), /proc/net/tcp), and what each process holds.
    """
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        here, there = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
        if (here, there) == (port, server_port):
            return _holder(f"socket:[{fields[9]}]")
    return None


def _holder(socket: str) -> int | None:
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            for entry in os.scandir(folder):
                with suppress(OSError):
                    if str(Path(entry.path).readlink()) == socket:
                        return int(folder.parent.name)
    return None
