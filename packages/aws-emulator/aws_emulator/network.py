"""The network between clients and the account: slow, lossy and forgetful, as a test configures it.

``POST /_account/network`` with a JSON object of `Conditions` replaces the conditions, ``DELETE`` restores a perfect
network, and ``GET`` counts the events since then. The path exists only if the account was started with faults allowed.
"""

import random
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from aws_emulator.encoding import from_json, to_json
from aws_emulator.tcp_table import next_probe_s
from aws_emulator.wsgi import Dropped, Environ, Start, body, reply

PATH = "/_account/network"
# Management, and scripted faults, do not cross the network.
MANAGEMENT = "/_account/"

# Bytes that pass at once.
PIECE = 16 * 1024
# The server's receive buffer. With the system's default of megabytes a slow network would not delay the client.
RECEIVED = 64 * 1024
# The prefix of temporary access keys, which functions have (IAM user guide, "Understanding unique ID prefixes").
_ROLE = "Credential=ASIA"


class Conditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of the network.

    The default is perfect. Only requests of the operator cross it, or, with `functions`, all requests. `latency_s`: the
    longest delay of a request, drawn uniformly. `bytes_per_s`: the bandwidth of each direction, which all connections
    share. 0 is unlimited. `forget_after_s`: a connection that was silent for so long is forgotten, like in a NAT
    gateway, and 0 means never. Later data on it vanish, without an error. A connection is kept if its next keepalive
    probe is due within `probe_s`. AWS's NAT gateway forgets after 350 s (VPC user guide, "NAT gateway basics").

    Probabilities for each request: `drop` resets the connection when the request has arrived, before it is executed.
    `tear` resets it when half of the body has arrived. `lose` resets it after the execution, without the answer.
    """

    latency_s: float = 0.0
    bytes_per_s: float = 0.0
    forget_after_s: float = 0.0
    probe_s: float = 350.0
    drop: float = 0.0
    tear: float = 0.0
    lose: float = 0.0
    functions: bool = False


class _Link:
    """One direction of the network. Pieces pass one after the other, each in the time that its bytes take."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free_at = 0.0

    def carry(self, size: int, bytes_per_s: float) -> None:
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + size / bytes_per_s
            wait_s = self._free_at - time.monotonic()
        time.sleep(max(0.0, wait_s))


class Network:
    """The network that every connection of the listener crosses, thread-safe."""

    def __init__(self) -> None:
        self.conditions = Conditions()
        self.happened: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._up, self._down = _Link(), _Link()
        self._random = random.Random(0)

    def manage(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Answers a request to `PATH`."""
        with self._lock:
            if environ["REQUEST_METHOD"] == "POST":
                self.conditions = from_json(body(environ), Conditions)
            elif environ["REQUEST_METHOD"] == "DELETE":
                self.conditions = Conditions()
                self.happened.clear()
            return reply(start, "200 OK", to_json(self.happened))

    def listen(self, connection: socket.socket) -> bool:
        """Waits for the next request on an idle connection. False if the network forgot the connection.

        Returns after the client has given up a forgotten connection.
        """
        after_s = self.conditions.forget_after_s
        if select.select([connection], [], [], after_s or None)[0]:
            return True
        probe_s = next_probe_s(connection.getpeername()[1], connection.getsockname()[1])
        is_forgotten = probe_s > self.conditions.probe_s
        # While a request is on its way, the client's next timer is the retransmission timer.
        if select.select([connection], [], [], 0)[0]:
            return True
        if connection.recv(1, socket.MSG_PEEK):
            self._count("forgotten" if is_forgotten else "kept")
        while is_forgotten and connection.recv(PIECE):
            pass
        return not is_forgotten

    @contextmanager
    def crossing(self, environ: Environ, connection: socket.socket) -> Iterator["Crossing"]:
        """The way of one request. Raises `Dropped` at the place where the network resets the connection."""
        conditions = self.conditions
        is_affected = conditions.functions or _ROLE not in environ.get("HTTP_AUTHORIZATION", "")
        if environ["PATH_INFO"].startswith(MANAGEMENT) or not is_affected:
            conditions = Conditions()
        try:
            yield Crossing(conditions, self._up, self._down, self._draw)
        except Reset:
            # Closing without lingering sends RST (socket(7), SO_LINGER).
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise

    def _draw(self, kind: str, chance: float) -> float:
        """A number between 0 and 1, which is counted as `kind` if it is below `chance`."""
        with self._lock:
            number = self._random.random()
            if number < chance:
                self.happened[kind] += 1
        return number

    def _count(self, kind: str) -> None:
        with self._lock:
            self.happened[kind] += 1


class Reset(Dropped):
    """The network resets the connection."""


class Crossing:
    """One request and its answer."""

    def __init__(self, conditions: Conditions, up: _Link, down: _Link, draw: Callable[[str, float], float]) -> None:
        self._conditions, self._up, self._down, self._draw = conditions, up, down, draw

    def receive(self, stream: Any, length: int | None) -> bytes:
        """The request's body of `length` bytes, or up to the end of a chunked stream. Shorter if the client died."""
        conditions = self._conditions
        is_torn = self._happens("tear", conditions.tear)
        if conditions.latency_s:
            time.sleep(self._draw("latency", 1.0) * conditions.latency_s)
        pieces, remaining_bytes = [], length
        while remaining_bytes is None or remaining_bytes > 0:
            piece = stream.read(PIECE if remaining_bytes is None else min(PIECE, remaining_bytes))
            if not piece:
                break
            if conditions.bytes_per_s:
                self._up.carry(len(piece), conditions.bytes_per_s)
            pieces.append(piece)
            remaining_bytes = None if remaining_bytes is None else remaining_bytes - len(piece)
            if is_torn and (remaining_bytes is None or length is None or remaining_bytes <= length // 2):
                raise Reset
        if is_torn or self._happens("drop", conditions.drop):
            raise Reset
        return b"".join(pieces)

    def after_execution(self) -> None:
        """Called when the request was executed. Raises `Reset` if its answer is lost."""
        if self._happens("lose", self._conditions.lose):
            raise Reset

    def send(self, write: Callable[[bytes], object], text: bytes) -> None:
        """Sends the answer's body."""
        if not self._conditions.bytes_per_s:
            write(text)
            return
        for start in range(0, len(text), PIECE):
            self._down.carry(len(text[start : start + PIECE]), self._conditions.bytes_per_s)
            write(text[start : start + PIECE])

    def _happens(self, kind: str, chance: float) -> bool:
        return chance > 0 and self._draw(kind, chance) < chance
