"""The kernel's table of TCP connections (proc(5), /proc/net/tcp). Linux only."""

from pathlib import Path

_TABLE = Path("/proc/net/tcp")
# Column `tr` of a connection with a keepalive timer as its next timer. The unit of `tm->when` is 1/100 s.
_KEEPALIVE, _TICKS_PER_S = "02", 100


def _entry(port: int, server_port: int) -> list[str] | None:
    """The columns of the connection from `port` of 127.0.0.1 to `server_port` of it, or None."""
    for line in _TABLE.read_text(encoding="utf-8").splitlines()[1:] if _TABLE.exists() else ():
        columns = line.split()
        if [int(address.rpartition(":")[2], 16) for address in columns[1:3]] == [port, server_port]:
            return columns
    return None


def inode(port: int, server_port: int) -> str | None:
    """The inode of the client's socket, or None."""
    columns = _entry(port, server_port)
    return columns[9] if columns else None


def next_probe_s(port: int, server_port: int) -> float:
    """Seconds until the client's kernel sends a keepalive probe. Infinite if it sends none."""
    columns = _entry(port, server_port)
    timer, _, ticks = columns[5].partition(":") if columns else ("", "", "")
    return int(ticks, 16) / _TICKS_PER_S if timer == _KEEPALIVE else float("inf")
