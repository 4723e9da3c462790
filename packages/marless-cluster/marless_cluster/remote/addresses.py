"""Addresses of listening drivers: a host and a port, such as ``node7:7777``, ``0.0.0.0:7777`` or ``[::1]:7777``."""

import re
import socket
import sys
from typing import NamedTuple

from marless.functions.system_errors import explain
from marless_cluster.remote.faults import DialInError

# A peer that does not answer for so long is gone.
_SILENT_S = 20
_PROBE_S = 5
_LAST_PORT = 65535
_TEXT = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\[\]:/\s]*)):(?P<port>\d{1,9})")


class Address(NamedTuple):
    """The address of a listening driver. An empty host means every address of this machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str) -> Address:
    """Raises `DialInError` for a text that is no address."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise DialInError(f"{text[:100]!r} is not HOST:PORT, such as 0.0.0.0:7777 or [::1]:7777")
    if int(match["port"]) > _LAST_PORT:
        raise DialInError(f"{text[:100]!r} is not HOST:PORT: the last port is {_LAST_PORT}")
    host = match["six"] or match["host"]
    try:
        host.encode("idna")
    except UnicodeError:
        raise DialInError(f"{text[:100]!r} is not HOST:PORT: no host can have that name") from None
    return Address(host, int(match["port"]))


def listening_socket(address: Address) -> socket.socket:
    """A socket that listens there. Without a host it listens at all addresses of both protocols, if the system can. A
    name with addresses of both protocols means its IPv4 address. Raises `DialInError`."""
    has_both = not address.host and socket.has_dualstack_ipv6()
    try:
        candidates = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        preferred_family = socket.AF_INET6 if has_both else socket.AF_INET
        family, _, _, _, where = min(candidates, key=lambda entry: entry[0] != preferred_family)
    except OSError as error:
        raise DialInError(f"cannot listen on {address}: {explain(error, '')}") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a resume need not wait for old connections
        if has_both and family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(where)
        listener.listen()
    except OSError as error:
        listener.close()
        raise DialInError(f"cannot listen on {address}: {explain(error, '')}") from None
    listener.setblocking(False)
    return listener


def watch_peer(connection: socket.socket) -> None:
    """End the connection if the peer's machine stops answering, and send small messages at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _SILENT_S // _PROBE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_S * 1000)
