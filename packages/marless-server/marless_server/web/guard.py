"""The door of the whole application. It asks for a token before it looks at the path or the method.

A browser sends its password with every request, even with a request that another site makes. So it may only read, and
send the forms of this server's pages. Each form holds a stamp, which other sites cannot read.
Programs send `Authorization: Bearer`, which another site cannot set.
"""

import base64
import binascii
import hmac
from collections.abc import Collection
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marless_server.store.owners import Owner, Owners
from marless_server.web.bodies import FORM, body_of, form_of, replayed
from marless_server.web.problems import Problem
from marless_server.web.rates import Rates

# The methods that a browser may use freely.
_SAFE = ("GET", "HEAD")
# `none`: the user typed the address. Requests that another site causes have other values.
_SAME, _SITES = "same-origin", ("same-origin", "none")
_ONCE = ("host", "origin", "authorization", "content-type", "content-length", "idempotency-key", "sec-fetch-site")
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="marless", charset="UTF-8"'}
STAMP = "stamp"
"""The field of a form with the stamp."""


class Caller(NamedTuple):
    """The sender of a request, the id of the token, and the stamp of its forms."""

    owner: Owner
    token: str
    stamp: str


class _Login(NamedTuple):
    """The token of a request, and whether a browser sent it."""

    token: str
    is_browser: bool


class Guard:
    """Passes the requests of token holders to `app`. `hosts` are the values of the header Host that it answers to.

    Forms are in the scope as `form`.
    """

    def __init__(
        self, app: ASGIApp, owners: Owners, hosts: Collection[str], headers: dict[str, str], rates: Rates
    ) -> None:
        self._app, self._owners, self._hosts = app, owners, frozenset(hosts)
        self._headers, self._rates = headers, rates
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
            receive = await self._let_in(scope, receive)
        except Problem as problem:
            await problem.response()(scope, receive, _send)
            return
        await self._app(scope, receive, _send)

    async def _let_in(self, scope: Scope, receive: Receive) -> Receive:
        """Add the caller and the form to the scope. Return the function that receives the body."""
        address, headers = (scope.get("client") or ("",))[0], Headers(scope=scope)
        self._rates.arrive(address)
        self._refuse_others(headers)
        login = _login(headers)
        if (holder := self._owners.holder(login.token)) is None:
            self._rates.fail(address)
            raise Problem(401, "a valid token is needed: Authorization: Bearer TOKEN", "authorization", _CHALLENGE)
        self._rates.pass_token(token := holder[1])
        stamps = self._owners.stamps(token)
        scope["caller"] = Caller(*holder, stamps[0])
        if not login.is_browser or scope["method"] in _SAFE:
            return receive
        if scope["method"] != "POST" or headers.get("content-type", "") != FORM or not _is_same_site(headers):
            text = "only programs, and forms of this server's pages, change something: Authorization: Bearer TOKEN"
            raise Problem(403, text, "authorization")
        body = await body_of(Request(scope, receive))
        form = scope["form"] = form_of(body)
        if not any(hmac.compare_digest(form.get(STAMP, "").encode(), stamp.encode()) for stamp in stamps):
            raise Problem(403, "the page is older than a day: load it again, and send the form", STAMP)
        return replayed(body, receive)

    def _refuse_others(self, headers: Headers) -> None:
        """Raise `Problem` for another host, and for a request that another site makes."""
        for name in _ONCE:
            if len(headers.getlist(name)) > 1:
                raise Problem(400, f"the header {name} is there twice", name)
        if headers.get("host", "").lower() not in self._hosts:
            raise Problem(421, "the server has no such name: start it with --host NAME:PORT", "host")
        if (origin := headers.get("origin")) is not None and origin.lower() not in self._origins:
            raise Problem(403, "the request comes from a page of another site", "origin")
        if headers.get("sec-fetch-site", "none") not in _SITES:
            raise Problem(403, "the request comes from a page of another site", "sec-fetch-site")


def _is_same_site(headers: Headers) -> bool:
    """Return whether a page of this server sends the request. `Origin` was compared with the server's names before."""
    return headers.get("sec-fetch-site", _SAME if "origin" in headers else "") == _SAME


def _login(headers: Headers) -> _Login:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    is_browser = scheme.lower() != "bearer"
    return _Login(_password(scheme, credentials) if is_browser else credentials.strip(), is_browser)


def _password(scheme: str, credentials: str) -> str:
    """Return the password of a browser, '' without one."""
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
