"""An HTTP listener that keeps connections open, for a WSGI application that runs on threads."""

import io
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

from aws_emulator.network import PIECE, RECEIVED, Crossing, Network
from aws_emulator.wsgi import App, Environ

_FAILED = b"the emulated account failed; its log tells more"
_BAD_LENGTH = b"Content-Length is not a number"
# Bytes that are read and dropped from a body with an unknown key, so that its sender still reads the refusal.
_DISCARDED = 1 << 20


class _Connection(MotoRequestHandler):
    """One client's connection.

    Werkzeug closes every connection after one answer, because it cannot know where the next request begins. This
    class first reads a request to its end, so the connection can be reused, which saves most of a call's latency.
    """

    network: Network
    admits: Callable[[Environ], bool]

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # sends head and body together

    def handle_expect_100(self) -> bool:
        """Sends "100 Continue" at once, because the client waits up to a second for it."""
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def handle_one_request(self) -> None:
        """Waits for a request and answers it."""
        if self.network.listen(self.connection):
            super().handle_one_request()
        else:
            self.close_connection = True

    def run_wsgi(self) -> None:
        environ = self.make_environ()
        try:
            with self.network.crossing(environ, self.connection) as crossing:
                self._run(environ, crossing)
        except ConnectionError:
            self.close_connection = True

    def _run(self, environ: Environ, crossing: Crossing) -> None:
        length = _length(environ)
        if length is not None and length < 0:
            self.close_connection = True
            self._answer("400 Bad Request", [("Content-Type", "text/plain")], _BAD_LENGTH, crossing)
            return
        if not type(self).admits(environ):
            self._discard(environ["wsgi.input"], length)
            length, environ["wsgi.input"] = 0, io.BytesIO()
        whole = crossing.receive(environ["wsgi.input"], length)
        if length is not None and len(whole) < length:
            raise ConnectionResetError("the client died while it sent")
        environ |= {"wsgi.input": io.BytesIO(whole), "CONTENT_LENGTH": str(len(whole))}
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        response: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[[bytes], object]:
            response[:] = [status, headers]
            return _unwritten

        try:
            text = b"".join(self.server.app(environ, start))
        except ConnectionError:
            raise
        except Exception:
            traceback.print_exc(file=sys.stderr)
            response[:], text = ["500 Internal Server Error", [("Content-Type", "text/plain")]], _FAILED
        crossing.after_execution()
        self._answer(response[0], response[1], text, crossing)

    def _discard(self, stream: Any, length: int | None) -> None:
        """Reads the body of a request that will be refused, up to a limit. Beyond it the connection ends."""
        remaining_bytes = _DISCARDED if length is None else min(length, _DISCARDED)
        while remaining_bytes > 0 and (piece := stream.read(min(PIECE, remaining_bytes))):
            remaining_bytes -= len(piece)
        self.close_connection = length is None or length > _DISCARDED

    def _answer(self, status: str, headers: list[tuple[str, str]], text: bytes, crossing: Crossing) -> None:
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        header_names = set()
        for name, value in headers:
            self.send_header(name, value)
            header_names.add(name.lower())
        # A 204 needs no length. The answer to HEAD has the length of GET's body.
        if "content-length" not in header_names and code != "204" and self.command != "HEAD":
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            crossing.send(self.wfile.write, text)

    def log_request(self, *_: object) -> None:
        """Suppresses the log line of each request."""


def _unwritten(_: bytes) -> None:
    raise NotImplementedError("applications return what they answer")


def _length(environ: Environ) -> int | None:
    """The number of bytes to read. None for a chunked body, which ends by itself. -1 for an invalid header."""
    if environ.get("wsgi.input_terminated"):
        return None
    length: str = environ.get("CONTENT_LENGTH") or "0"
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else -1


def listen(
    app: App, network: Network | None = None, admits: Callable[[Environ], bool] = lambda _: True
) -> BaseWSGIServer:
    """Returns a server on a free port of 127.0.0.1.

    By default its network is perfect. `serve_forever` runs it with one thread per connection. If `admits` refuses the
    head of a request, `app` answers it without a body.
    """
    handler = type("Connection", (_Connection,), {"network": network or Network(), "admits": staticmethod(admits)})
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=handler)
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)
    return server
