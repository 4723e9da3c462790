"""A resource that is a service: ``http = "https://judge.example/grade"``. A question is the body of a POST. The answer
is the body of the response, with a status of 200 to 299.

A service that is busy, restarts, or loses the connection is asked again within the time-out, after a pause. The pause
is drawn between nothing and a ceiling that doubles (full jitter, AWS Architecture Blog, "Exponential Backoff And
Jitter"). A service that names a time in Retry-After is left alone for that time by all who ask it: see `AskLater`.
A kept connection that the service has closed is replaced at once.

If answers are kept, each question has an ``Idempotency-Key``, so a service recognises a repeated question. Source: IETF
draft "The Idempotency-Key HTTP Header Field". A status of 409 says then that it still works at the answer. A token in
the variable MARLESS_RESOURCE_<NAME>_TOKEN is sent as ``Authorization: Bearer``. Redirections are not followed: the
token would follow too.
"""

import errno
import os
import random
import re
import select
import socket
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BufferedReader
from urllib.parse import SplitResult, urlsplit

from marless.functions.resources.port import MOST_BYTES, ResourceCall
from marless.functions.resources.serving.kinds.kind import AskLater, NoAnswer, NotServing
from marless.functions.resources.serving.kinds.proxies import Proxy, proxy_of
from marless.functions.resources.serving.kinds.retry_after import retry_after_s
from marless.functions.resources.settings import Resource, token_variable

_FIRST_S, _LONGEST_S = 0.1, 10.0
_CHUNK = 1 << 16
# Of a service that is busy or restarts, and of the gateways before it (520 to 524 and 529 are no standard).
_PASSING = frozenset({408, 425, 429, 502, 503, 504, *range(520, 525), 529})
_STILL_ASKED, _FIRST_FINAL = 409, 200
_PASSING_ERRORS = (ConnectionError, IncompleteRead, ssl.SSLEOFError, ssl.SSLZeroReturnError)
_PASSING_CODES = frozenset({errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH})
# The error of `http.client` for a proxy that does not connect.
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
# A separate generator: code of others may draw from, or seed, the interpreter's shared one.
_DRAWS = random.Random()


class _Passing(Exception):
    """A fault that passes. The message names it. If it lasts, an `error` is raised."""

    def __init__(self, message: str, error: type[NoAnswer] = NotServing) -> None:
        super().__init__(message)
        self.error = error


class _Late(_Passing):
    """The time-out has passed."""


class _WholeLines(BufferedReader):
    """The bytes of a service. A cut line is a fault, because part of a number is another number."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if line and not line.endswith(b"\n") and len(line) != size:
            raise IncompleteRead(line)
        return line


class _Response(HTTPResponse):
    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None):
        super().__init__(sock, debuglevel, method, url)
        self.fp = _WholeLines(self.fp.detach())


class HttpService:
    """A service with a connection that is kept."""

    def __init__(self, address: SplitResult, token: str, timeout_s: float, proxy: Proxy | None = None) -> None:
        self._address, self._timeout_s, self._proxy = address, timeout_s, proxy
        self._headers = {"Content-Type": "application/octet-stream"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection: HTTPConnection | None = None

    def answer(self, call: ResourceCall, cores: int) -> bytes:
        """Return its answer to the question. Raises `NoAnswer`, and `AskLater` if it names a time."""
        deadline, ceiling = time.monotonic() + self._timeout_s, _FIRST_S
        earlier = ""
        while True:
            is_kept = self._has_connection()
            try:
                return self._post(call, deadline)
            except _Late as late:
                raise late.error(f"{earlier}no answer within {self._timeout_s:g} s") from late
            except _Passing as fault:
                self.close()
                earlier = f"{fault}, then "
                # A kept connection that the service has closed meanwhile says nothing about the service.
                is_closed = is_kept and isinstance(fault.__cause__, ConnectionError)
                pause_s = 0.0 if is_closed else _DRAWS.uniform(0.0, ceiling)
                if time.monotonic() + pause_s >= deadline:
                    raise fault.error(f"{fault} for {self._timeout_s:g} s") from fault
            time.sleep(pause_s)
            ceiling = min(_LONGEST_S, 2 * ceiling)

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, call: ResourceCall, deadline: float) -> bytes:
        """Ask once. Raises `NoAnswer`, `_Late` and `_Passing`."""
        try:
            connection = self._connected(deadline)
            connection.request("POST", self._path, call.question, self._all_headers(call.key))
            with self._response(connection, deadline) as response:
                body = self._body(connection, response, deadline)
                if response.will_close:
                    self.close()
        except TimeoutError as error:
            is_reached = self._connection is not None and self._connection.sock is not None
            self.close()
            raise _Late("", NoAnswer if is_reached else NotServing) from error
        except (OSError, HTTPException) as error:
            self.close()
            reason = f"{self._address.netloc}: {_reason(error)}"
            if not _passes(error):
                raise NoAnswer(reason) from error
            raise _Passing(reason, NoAnswer if isinstance(error, IncompleteRead) else NotServing) from error
        except BaseException:
            self.close()
            raise
        return self._answer(response, body, call.key)

    def _answer(self, response: HTTPResponse, body: bytes, key: str) -> bytes:
        """Return the body of an answer. Raises `NoAnswer` and `_Passing` for another response."""
        if 200 <= response.status < 300:
            return body
        reason = f"{response.status} {response.reason}".rstrip()
        if response.status >= 400 and (pause_s := retry_after_s(response.headers)) > 0:
            raise AskLater(reason, pause_s)
        if response.status in _PASSING:
            raise _Passing(reason)
        if response.status == _STILL_ASKED and key:
            raise _Passing(reason, NoAnswer)
        raise NoAnswer(reason)

    def _all_headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of a question. They include the proxy's headers if the proxy is asked in clear."""
        through = self._proxy.headers if self._proxy and self._address.scheme == "http" else {}
        return {**self._headers, **through, **({"Idempotency-Key": key} if key else {})}

    @property
    def _path(self) -> str:
        path = self._address.path or "/"
        path = f"{path}?{self._address.query}" if self._address.query else path
        return f"http://{self._address.netloc}{path}" if self._proxy and self._address.scheme == "http" else path

    def _has_connection(self) -> bool:
        if self._connection is not None and _is_over(self._connection.sock):
            self.close()
        return self._connection is not None

    def _connected(self, deadline: float) -> HTTPConnection:
        if self._connection is None:
            is_secure = self._address.scheme == "https"
            host, port = self._address.hostname or "", self._address.port
            first = (self._proxy.host, self._proxy.port) if self._proxy else (host, port)
            self._connection = (HTTPSConnection if is_secure else HTTPConnection)(*first, timeout=_left_s(deadline))
            self._connection.response_class = _Response
            if self._proxy and is_secure:
                self._connection.set_tunnel(host, port, dict(self._proxy.headers))
            self._connection.connect()
        self._allow(self._connection, deadline)
        return self._connection

    def _allow(self, connection: HTTPConnection, deadline: float) -> None:
        left_s = _left_s(deadline)
        if connection.sock is not None:
            connection.sock.settimeout(left_s)

    def _response(self, connection: HTTPConnection, deadline: float) -> HTTPResponse:
        """Return the final response. Earlier responses, such as 103, only say that it will come (RFC 9110, 15.2)."""
        self._allow(connection, deadline)
        response = connection.getresponse()
        while response.status < _FIRST_FINAL:
            self._allow(connection, deadline)
            response.headers = None  # type: ignore[assignment]  # else `begin` reads nothing
            response.begin()
        return response

    def _body(self, connection: HTTPConnection, response: HTTPResponse, deadline: float) -> bytes:
        body = bytearray()
        while True:
            if response.length and response.peek()[response.length :].strip():
                raise NoAnswer("its answer is longer than its Content-Length")
            if not (chunk := response.read1(_CHUNK)):
                break
            body += chunk
            if len(body) > MOST_BYTES:
                raise NoAnswer(f"its answer has more than {MOST_BYTES >> 20} MiB")
            self._allow(connection, deadline)
        if response.length:
            raise IncompleteRead(bytes(body), response.length)
        return bytes(body)


def begin(name: str, resource: Resource) -> HttpService:
    """The service that the resource names. Raises `NoAnswer` for a token or a proxy that cannot be used."""
    token = os.environ.get(token_variable(name), "")
    if not (token.isascii() and token.isprintable()):
        raise NoAnswer(
            f"{token_variable(name)} holds what no header can, such as a line break or a letter with an accent"
        )
    address = urlsplit(resource.http)
    return HttpService(address, token, resource.timeout_s, proxy_of(address))


def _left_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _is_over(sock: socket.socket | None) -> bool:
    """Return True for a connection that cannot be used: its other end has closed it, or sent unasked data."""
    if sock is None:
        return True
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _passes(error: Exception) -> bool:
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    if tunnel := _TUNNEL.match(str(error)):
        return int(tunnel[1]) in _PASSING
    return isinstance(error, _PASSING_ERRORS) or getattr(error, "errno", None) in _PASSING_CODES


def _reason(error: Exception) -> str:
    if isinstance(error, IncompleteRead):
        return "its answers ended early"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
