"""An HTTP listener that keeps connections open, for a WSGI application that runs on threads."""

import io
import sys
import traceback
from collections.abc import Callable
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

from aws_emulator.wsgi import App

_FAILED = b"the emulated account failed; its log tells more"


class _Connection(MotoRequestHandler):
    """One client's connection.

    Werkzeug closes every connection after one answer, because it cannot know where the next request begins. This
    class first reads a request to its end, so the connection can be reused, which saves most of a call's latency.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # sends head and body together

    def handle_expect_100(self) -> bool:
        """Sends "100 Continue" at once, because the client waits up to a second for it."""
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def run_wsgi(self) -> None:
        environ = self.make_environ()
        length = _length(environ)
        whole = environ["wsgi.input"].read(*length)
        if length and len(whole) < length[0]:  # the client died while it sent
            self.close_connection = True
            return
        environ |= {"wsgi.input": io.BytesIO(whole), "CONTENT_LENGTH": str(len(whole))}
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        response: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[[bytes], object]:
            response[:] = [status, headers]
            return _unwritten

        try:
            text = b"".join(self.server.app(environ, start))
        except ConnectionError:
            self.close_connection = True
            return
        except Exception:
            traceback.print_exc(file=sys.stderr)
            response[:], text = ["500 Internal Server Error", [("Content-Type", "text/plain")]], _FAILED
        self._answer(response[0], response[1], text)

    def _answer(self, status: str, headers: list[tuple[str, str]], text: bytes) -> None:
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        named = set()
        for name, value in headers:
            self.send_header(name, value)
            named.add(name.lower())
        # A 204 needs no length; the answer to HEAD has the length of GET's body.
        if "content-length" not in named and code != "204" and self.command != "HEAD":
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_request(self, *_: object) -> None:
        """Suppresses the log line of each request."""


def _unwritten(_: bytes) -> None:
    raise NotImplementedError("applications return what they answer")


def _length(environ: dict[str, Any]) -> tuple[int, ...]:
    """The number of bytes to read; empty for a chunked body, which ends by itself."""
    return () if environ.get("wsgi.input_terminated") else (int(environ.get("CONTENT_LENGTH") or 0),)


def listen(app: App) -> BaseWSGIServer:
    """Returns a server on a free port of 127.0.0.1; `serve_forever` runs it with one thread per connection."""
    return make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Connection)
