"""Bodies of requests, which are read within bounds of size and time."""

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from marless_server.web.problems import Problem

MOST_BODY_BYTES, _BODY_S, _MOST_FIELDS = 1 << 18, 20.0, 50
FORM = "application/x-www-form-urlencoded"


async def body_of(request: Request) -> bytes:
    """Return the body of a request. Raises `Problem` if it is too long, too slow or ends early."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BODY_BYTES:
                    raise Problem(413, f"a body has at most {MOST_BODY_BYTES:,} bytes")
    except TimeoutError:
        raise Problem(408, f"the body took more than {_BODY_S:g} s") from None
    except ClientDisconnect:
        raise Problem(400, "the body ended early") from None
    return bytes(body)


def form_of(body: bytes) -> Mapping[str, str]:
    """Return the fields of a page's form. Raises `Problem` for a field that is there twice, and for too many."""
    try:
        pairs = parse_qsl(body.decode(), True, True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise Problem(400, f"the form cannot be read: {error}") from error
    if len(form := dict(pairs)) < len(pairs):
        raise Problem(400, "the form has a field twice")
    return form


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that delivers a body once more."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def _receive() -> Message:
        return messages.pop() if messages else await receive()

    return _receive
