"""Addresses at which a driver listens: a host and a port, as in ``node7:7777``, ``0.0.0.0:7777`` or ``[::1]:7777``."""

import re
import socket
import sys
from typing import NamedTuple

from functions.system_errors import explain
from infra.remote.faults import DialInError

# A peer that does not answer for so long is gone.
_SILENT_S = 20
_PROBE_S = 5
_TEXT = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:/\s]*)):(?P<port>\d{1,5})")


class Address(NamedTuple):
    """Where a driver listens; an empty host is every address of this machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str) -> Address:
    """Raises `DialInError` for a text that is no address."""
    match = _TEXT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise DialInError(f"{text[:100]!r} is not HOST:PORT, such as 0.0.0.0:7777 or [::1]:7777")
    return Address(match["six"] or match["host"], int(match["port"]))


def listening_socket(address: Address) -> socket.socket:
    """A socket that listens there; raises `DialInError` where it cannot."""
    try:
        candidates = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # Where all addresses are meant, those of the older protocol are among them.
        family, _, _, _, where = min(candidates, key=lambda entry: entry[0] != socket.AF_INET)
    except OSError as error:
        raise DialInError(f"cannot listen on {address}: {explain(error, '')}") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a resume need not wait for old connections
        listener.bind(where)
        listener.listen()
    except OSError as error:
        listener.close()
        raise DialInError(f"cannot listen on {address}: {explain(error, '')}") from None
    listener.setblocking(False)
    return listener


def watch_peer(connection: socket.socket) -> None:
    """The connection ends when the peer's machine does not answer any more, and small messages do not wait."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _SILENT_S // _PROBE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_S * 1000)
