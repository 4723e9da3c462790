"""An HTTP service in place of AWS that fails as a test configures it, and otherwise forwards to an app."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pytest

from aws_emulator.listener import listen
from aws_emulator.middleware.atomic import Atomic
from aws_emulator.network import Network
from marless.functions.errors import StorageFault
from marless.infra.aws.clients import Cloud

Environ = dict[str, Any]
Start = Callable[..., Any]
App = Callable[[Environ, Start], Iterable[bytes]]
# Replaces an answer. Gets the request and the app that would answer it.
Deed = Callable[[Environ, Start, App], Iterable[bytes]]


class StandIn:
    """The first queued handler for a request's operation answers it, else `app`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._waiting: list[tuple[str, deque[Deed]]] = []
        self._lock = threading.Lock()
        self.seen: list[str] = []
        self.address = ""
        self.network = Network()

    @cached_property  # a session reads the services' models once
    def cloud(self) -> Cloud:
        return Cloud("us-east-1", self.address, ("AKIDEXAMPLE", "secret", None))

    def do(self, operation: str, *deeds: Deed) -> None:
        """These answer the next requests of `operation` (an S3 method, a DynamoDB operation), one each."""
        self._waiting = [(operation, deque(deeds))]
        self.seen.clear()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2] or environ["REQUEST_METHOD"]
        with self._lock:
            self.seen.append(operation)
            deeds = next((deeds for name, deeds in self._waiting if name == operation and deeds), None)
            deed = deeds.popleft() if deeds else None
        return deed(environ, start, self._app) if deed else self._app(environ, start)


def answer(status: str, body: bytes = b"", *headers: tuple[str, str]) -> Deed:
    def deed(environ: Environ, start: Start, app: App) -> Iterable[bytes]:
        start(status, list(headers))
        return [body]

    return deed


def s3_error(status: str, name: str) -> Deed:
    return answer(status, f"<Error><Code>{name}</Code><Message>said S3</Message></Error>".encode())


def json_error(status: str, name: str, message: str = "said AWS") -> Deed:
    body = f'{{"__type": "com.amazonaws#{name}", "message": "{message}"}}'.encode()
    return answer(status, body, ("x-amzn-ErrorType", name), ("Content-Type", "application/x-amz-json-1.0"))


def fault(action: Callable[[], object]) -> str:
    with pytest.raises(StorageFault) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def lost(environ: Environ, start: Start, app: App) -> Iterable[bytes]:
    b"".join(app(environ, lambda *_: None))
    raise ConnectionAbortedError


def unheard(environ: Environ, start: Start, app: App) -> Iterable[bytes]:
    raise ConnectionAbortedError


def changed(change: Callable[[list[tuple[str, str]], bytes], tuple[list[tuple[str, str]], bytes]]) -> Deed:
    def deed(environ: Environ, start: Start, app: App) -> Iterable[bytes]:
        response: list[Any] = []
        body = b"".join(app(environ, lambda status, headers, *_: response.extend((status, list(headers)))))
        headers, body = change(response[1], body)
        start(response[0], headers)
        return [body]

    return deed


def _length(headers: list[tuple[str, str]], body: bytes) -> list[tuple[str, str]]:
    return [pair for pair in headers if pair[0].lower() != "content-length"] + [("Content-Length", str(len(body)))]


# The first half of a body, then the connection closes or stalls.
torn = changed(lambda headers, body: ([*_length(headers, body), ("Connection", "close")], body[: len(body) // 2]))
stalled = changed(lambda headers, body: (_length(headers, body), body[: len(body) // 2]))
flipped = changed(lambda headers, body: (headers, bytes([body[0] ^ 1]) + body[1:]))


@contextmanager
def standing(app: App) -> Iterator[StandIn]:
    service = StandIn(app)
    server = listen(service, service.network)
    server.daemon_threads = True
    service.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield service
    server.shutdown()
    server.server_close()
    thread.join()


def moto() -> App:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    return Atomic(DomainDispatcherApplication(create_backend_app))
