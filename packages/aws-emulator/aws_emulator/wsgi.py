"""Helpers for WSGI middleware: parse a signed request, answer it, drop its connection."""

import io
import re
from collections.abc import Callable, Iterable
from typing import Any

Environ = dict[str, Any]
Start = Callable[..., Any]
App = Callable[[Environ, Start], Iterable[bytes]]

# The credential scope of a signature names the service (AWS Signature Version 4, "Credential").
_SCOPE = re.compile(r"Credential=[^/,\s]+/\d+/[^/,\s]+/([^/,\s]+)/aws4_request")


class Dropped(ConnectionAbortedError):
    """Ends the connection without an answer."""


def service(environ: Environ) -> str:
    """The service that a request is signed for. '' if it is unsigned."""
    match = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    return match[1].lower() if match else ""


def operation(environ: Environ) -> str:
    """The operation in the header X-Amz-Target of a JSON service's request, else the HTTP method."""
    target: str = environ.get("HTTP_X_AMZ_TARGET", "")
    return target.rpartition(".")[2] or str(environ["REQUEST_METHOD"])


def body(environ: Environ) -> bytes:
    """The request's whole body. Later readers of `environ` can still read it."""
    # The server has already read the body to its end, so that the connection can be reused.
    stream = environ["wsgi.input"]
    if not isinstance(stream, io.BytesIO):
        stream = environ["wsgi.input"] = io.BytesIO(stream.read(int(environ.get("CONTENT_LENGTH") or 0)))
    return stream.getvalue()


def reply(
    start: Start, status: str, text: bytes, kind: str = "application/json", *headers: tuple[str, str]
) -> Iterable[bytes]:
    """Answers with the body `text` of the content type `kind`."""
    start(status, [("Content-Type", kind), ("Content-Length", str(len(text))), *headers])
    return [text]
