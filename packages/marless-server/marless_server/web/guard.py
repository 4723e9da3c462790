"""The door of the whole application. It asks for a token before it looks at the path or the method.

A browser may only read. It sends its password with every request, even with a request that another site makes.
Programs send `Authorization: Bearer`, which another site cannot set.
"""

import base64
import binascii
from collections.abc import Callable, Collection
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marless_server.store.owners import Owner
from marless_server.web.problems import Problem

# The methods that a browser may use. Any other one needs a program's token.
_SAFE = ("GET", "HEAD")
# `none`: the user typed the address. Requests that another site causes have other values.
_SITES = ("same-origin", "none")
_ONCE = ("host", "origin", "authorization", "content-type", "content-length", "idempotency-key")
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="marless", charset="UTF-8"'}

Holder = Callable[[str], tuple[Owner, str] | None]
"""Returns the owner of a token and the token's id, or None."""


class Caller(NamedTuple):
    """The sender of a request, and the id of the token."""

    owner: Owner
    token: str


class Guard:
    """Passes the requests of token holders to `app`. `hosts` are the values of the header Host that it answers to."""

    def __init__(self, app: ASGIApp, holder: Holder, hosts: Collection[str], headers: dict[str, str]) -> None:
        self._app, self._holder, self._hosts, self._headers = app, holder, frozenset(hosts), headers
        self._origins = frozenset(f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def _send(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        try:
            scope["caller"] = self._caller(scope["method"], Headers(scope=scope))
        except Problem as problem:
            await problem.response()(scope, receive, _send)
            return
        await self._app(scope, receive, _send)

    def _caller(self, method: str, headers: Headers) -> Caller:
        for name in _ONCE:
            if len(headers.getlist(name)) > 1:
                raise Problem(400, f"the header {name} is there twice", name)
        if headers.get("host", "").lower() not in self._hosts:
            raise Problem(421, "the server has no such name: start it with --host NAME:PORT", "host")
        if (origin := headers.get("origin")) is not None and origin.lower() not in self._origins:
            raise Problem(403, "the request comes from a page of another site", "origin")
        if headers.get("sec-fetch-site", "none") not in _SITES:
            raise Problem(403, "the request comes from a page of another site", "sec-fetch-site")
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        token = credentials.strip() if scheme.lower() == "bearer" else _password(scheme, credentials)
        if (holder := self._holder(token)) is None:
            raise Problem(401, "a valid token is needed: Authorization: Bearer TOKEN", "authorization", _CHALLENGE)
        if scheme.lower() != "bearer" and method not in _SAFE:
            raise Problem(403, "only programs change something: Authorization: Bearer TOKEN", "authorization")
        return Caller(*holder)


def _password(scheme: str, credentials: str) -> str:
    """Return the password of a browser, '' without one."""
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
