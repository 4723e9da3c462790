"""A resource that is a service: ``http = "https://judge.example/grade"``. A question is the body of a POST, and the
answer the body of what comes back, with a status of 200 to 299.

A service that is busy (429, 503) is asked again after a pause, within the time-out: one drawn between nothing and a
ceiling that doubles (full jitter, AWS Architecture Blog, "Exponential Backoff And Jitter"), but no less than what
Retry-After says (RFC 9110, 10.2.3). Where answers are kept each question has an ``Idempotency-Key``, by which a service
knows one that it is asked again because somebody was killed meanwhile (IETF draft "The Idempotency-Key HTTP Header
Field"); 409 says then that it is still at it. A token in the variable MARLESS_RESOURCE_<NAME>_TOKEN is sent as
``Authorization: Bearer``. Redirections are not followed: the token would follow too.
"""

import os
import random
import select
import socket
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from functions.resources.kinds.kind import NoAnswer
from functions.resources.port import MOST_BYTES, Action
from functions.resources.settings import Resource, token_variable

_FIRST_S, _LONGEST_S = 0.1, 10.0
_CHUNK = 1 << 16
_LIMITED, _BUSY, _STILL_ASKED = 429, 503, 409
# A separate generator: code of others may draw from, or seed, the interpreter's shared one.
_DRAWS = random.Random()


class Service:
    """A service, whose connection is kept."""

    def __init__(self, address: SplitResult, token: str, timeout_s: float) -> None:
        self._address, self._timeout_s = address, timeout_s
        self._headers = {"Content-Type": "application/octet-stream"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection: HTTPConnection | None = None

    def answer(self, action: Action, cores: int) -> bytes:
        """What it says to the question; raises `NoAnswer`."""
        deadline, ceiling = time.monotonic() + self._timeout_s, _FIRST_S
        headers = self._headers | ({"Idempotency-Key": action.key} if action.key else {})
        while True:
            status, reason, body, least_s = self._post(action.question, headers, deadline)
            if 200 <= status < 300:
                return body
            if status not in (_LIMITED, _BUSY) and not (status == _STILL_ASKED and action.key):
                raise NoAnswer(f"{status} {reason}".rstrip())
            pause_s = max(_DRAWS.uniform(0.0, ceiling), least_s)
            if time.monotonic() + pause_s >= deadline:
                raise NoAnswer(f"{status} {reason} for {self._timeout_s:g} s")
            time.sleep(pause_s)
            ceiling = min(_LONGEST_S, 2 * ceiling)

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, question: bytes, headers: Mapping[str, str], deadline: float) -> tuple[int, str, bytes, float]:
        """The status, its reason, the body, and the least pause before it is asked again, in seconds."""
        try:
            connection = self._connected(deadline)
            connection.request("POST", self._path, question, headers)
            self._allow(connection, deadline)
            with connection.getresponse() as response:
                body = self._body(connection, response, deadline)
                if response.will_close:
                    self.close()
                return response.status, response.reason, body, _retry_after_s(response.headers.get("Retry-After", ""))
        except TimeoutError as error:
            self.close()
            raise NoAnswer(f"no answer within {self._timeout_s:g} s") from error
        except (OSError, HTTPException) as error:
            self.close()
            raise NoAnswer(f"{self._address.netloc}: {_reason(error)}") from error
        except BaseException:
            self.close()
            raise

    @property
    def _path(self) -> str:
        path = self._address.path or "/"
        return f"{path}?{self._address.query}" if self._address.query else path

    def _connected(self, deadline: float) -> HTTPConnection:
        """The connection that was kept, unless the service has closed it, or a new one."""
        if self._connection is not None and _is_over(self._connection.sock):
            self.close()
        if self._connection is None:
            kind = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
            self._connection = kind(self._address.hostname or "", self._address.port, timeout=_left_s(deadline))
            self._connection.connect()
        self._allow(self._connection, deadline)
        return self._connection

    def _allow(self, connection: HTTPConnection, deadline: float) -> None:
        """Gives the next step of an exchange the time that is left."""
        left_s = _left_s(deadline)
        if connection.sock is not None:
            connection.sock.settimeout(left_s)

    def _body(self, connection: HTTPConnection, response: HTTPResponse, deadline: float) -> bytes:
        body = bytearray()
        while chunk := response.read1(_CHUNK):
            body += chunk
            if len(body) > MOST_BYTES:
                raise NoAnswer(f"its answer has more than {MOST_BYTES >> 20} MiB")
            self._allow(connection, deadline)
        if response.length:
            raise NoAnswer("its answer ended early")
        return bytes(body)


def begin(name: str, resource: Resource) -> Service:
    """The service that the resource names; raises `NoAnswer` for a token that cannot be sent."""
    token = os.environ.get(token_variable(name), "")
    if not (token.isascii() and token.isprintable()):
        raise NoAnswer(
            f"{token_variable(name)} holds what no header can, such as a line break or a letter with an accent"
        )
    return Service(urlsplit(resource.http), token, resource.timeout_s)


def _left_s(deadline: float) -> float:
    """The seconds until `deadline`; raises `TimeoutError` where there are none."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _is_over(sock: socket.socket | None) -> bool:
    """Whether a connection cannot be used: its other end has closed it, or has said what nobody asked."""
    if sock is None:
        return True
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _retry_after_s(text: str) -> float:
    """The pause that a service asks for, as seconds or as a date; 0 where it says none."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
