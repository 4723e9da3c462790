"""The runtime process of one execution environment, and the Lambda Runtime API that it calls.

The thread of an invocation itself waits for the requests of the process and answers them, which needs no further thread
and keeps time-outs simple. The requests follow the AWS documentation, "Using the Lambda runtime API for custom
runtimes".
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from aws_emulator.lambda_service import memory

PREFIX = "/2018-06-01/runtime/"
# The Lambda quotas page says 6 MB. The service's own message names this number of bytes.
LONGEST_BODY = 6_291_556

# How often to look whether a process has ended or holds too much memory.
_POLL_S = 0.05
# awslambdaric repeats an error's description in a header of up to 1 MiB.
_LONGEST_HEAD = 2 << 20
_PIECE = 1 << 20

ENVIRONMENT_PROCESS = Path(__file__).with_name("environment_process.py")


class Garbled(Exception):
    """A connection's bytes are not a valid HTTP request of a runtime."""


@dataclass(frozen=True)
class Request:
    """One request. `oversize` is the Content-Length of a body that is too long and was not read, else 0."""

    method: str
    path: str
    body: bytes = b""
    oversize: int = 0


def take(data: bytearray) -> Request | None:
    """Removes the first request from `data` and returns it. `None` while it is incomplete. Raises `Garbled`.

    A body longer than `LONGEST_BODY` is not read.
    """
    end = data.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
    if end < 0:
        if len(data) >= _LONGEST_HEAD:
            raise Garbled("no end of the header")
        return None
    first, *fields = data[:end].decode("latin-1").split("\r\n")
    try:
        method, path, _ = first.split(" ")
        length = _length(fields)
    except ValueError as error:
        raise Garbled(first[:100]) from error
    if length > LONGEST_BODY:
        return Request(method, path, oversize=length)
    start, stop = end + 4, end + 4 + length
    if len(data) < stop:
        return None
    body = bytes(memoryview(data)[start:stop])
    del data[:stop]
    return Request(method, path, body)


def _length(fields: list[str]) -> int:
    headers = {name.strip().lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    if "transfer-encoding" in headers:
        raise ValueError("awslambdaric announces the length of its bodies")
    return int(headers.get("content-length", "0"))


class _Connection:
    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.data = bytearray()

    def fill(self) -> bool:
        """Reads the available bytes. Returns False if the connection has closed."""
        try:
            piece = self.channel.recv(_PIECE)
        except OSError:
            return False
        self.data += piece
        return bool(piece)


@dataclass(frozen=True)
class RuntimeRequest:
    """An unanswered request of the process."""

    request: Request
    connection: _Connection


class RuntimeApi:
    """The Runtime API of one environment. Only one thread at a time may use it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._connections: list[_Connection] = []
        host, port = self._listener.getsockname()
        self.address = f"{host}:{port}"

    def receive(self, until: float, alive: Callable[[], bool]) -> RuntimeRequest | None:
        """The next request, or `None` if the process has ended without one.

        Raises `TimeoutError` at `until` (monotonic seconds), unless a complete request has arrived by then.
        """
        while True:
            remaining_s, running = until - time.monotonic(), alive()
            has_data = self._read(max(0.0, min(remaining_s, _POLL_S)) if running else 0.0)
            request = self._take()
            if request is not None:
                return request
            if remaining_s <= 0:
                raise TimeoutError
            if not running and not has_data:
                return None

    def answer(
        self,
        request: RuntimeRequest,
        status: HTTPStatus,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 1.0,
    ) -> None:
        """Sends an answer. Errors of the connection are ignored: `receive` detects a process that has ended."""
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        channel = request.connection.channel
        with suppress(OSError):
            channel.settimeout(max(timeout_s, 0.001))
            channel.sendall(f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode("latin-1") + body)
        if request.request.oversize:
            self._drop(request.connection)

    def hang_up(self) -> None:
        """Closes all connections of the current process. A new process may connect."""
        while self._connections:
            self._drop(self._connections[-1])

    def close(self) -> None:
        self.hang_up()
        self._selector.close()
        self._listener.close()

    def _read(self, timeout_s: float) -> bool:
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            connection: _Connection | None = key.data
            if connection is None:
                self._accept()
            elif not connection.fill():
                self._drop(connection)
        return bool(ready)

    def _accept(self) -> None:
        channel, _ = self._listener.accept()
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(channel)
        self._connections.append(connection)
        self._selector.register(channel, selectors.EVENT_READ, connection)

    def _take(self) -> RuntimeRequest | None:
        for connection in list(self._connections):
            try:
                request = take(connection.data)
            except Garbled:
                self._drop(connection)
                continue
            if request is not None:
                return RuntimeRequest(request, connection)
        return None

    def _drop(self, connection: _Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self._selector.unregister(connection.channel)
            connection.channel.close()


class RuntimeProcess:
    """A running handler. It prints to the descriptor `output`. `code` is explained in `FunctionVersion`."""

    def __init__(self, handler: str, code: Sequence[Path], variables: Mapping[str, str], output: int) -> None:
        self.started = time.monotonic()
        far, lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                # -P: no import comes from the folder of environment_process.py.
                [sys.executable, "-P", str(ENVIRONMENT_PROCESS), str(far), handler, *map(str, code[1:])],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=code[0],
                env=variables,
                pass_fds=(far,),
                start_new_session=True,  # Ctrl-C in the terminal reaches only the account
            )
        except OSError:
            os.close(lifeline)
            raise
        finally:
            os.close(far)
        self._lifeline: int | None = lifeline

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> str:
        """Waits for the process to end. Returns Lambda's message for its exit."""
        status = self._process.wait()
        if status == 0:
            return "Runtime exited without providing a reason"
        name = (signal.strsignal(-status) or str(-status)).lower() if status < 0 else ""
        return f"Runtime exited with error: {f'signal: {name}' if name else f'exit status {status}'}"

    def used_mb(self, limit_mb: int) -> int:
        """See `memory.used_mb`."""
        return memory.used_mb(self._process.pid, limit_mb)

    def kill(self) -> None:
        """Kills the process and its group. Any thread may call it before `close`."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()

    def close(self) -> None:
        """Kills the process and waits for its end. Idempotent."""
        if self._lifeline is not None:
            self.kill()
            self._process.wait()
            os.close(self._lifeline)
            self._lifeline = None
