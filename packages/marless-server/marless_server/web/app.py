"""The application: the API and the page, behind one door."""

import base64
import hashlib
from collections.abc import Collection

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from marless.coordinator.config.schema import ConfigError
from marless.coordinator.errors import UserError
from marless.functions.errors import StorageFault
from marless_server.web.admin import AdminPages
from marless_server.web.api import Api, problem_of
from marless_server.web.changes import ChangePages
from marless_server.web.guard import Guard
from marless_server.web.layout import SCRIPT, STYLE
from marless_server.web.page import Pages
from marless_server.web.problems import Problem
from marless_server.web.rates import Rates
from marless_server.web.resources import Lab


def _hash(text: str) -> str:
    """Return the name of a style or a script in a policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)};"
    " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    # Without a referrer, browsers send forms with `Origin: null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SCREENS = (Api, Pages, ChangePages, AdminPages)
_ERRORS = (Problem, HTTPException, ConfigError, UserError, StorageFault, Exception)


def application(lab: Lab, hosts: Collection[str], rates: Rates | None = None) -> ASGIApp:
    """Return the application of a lab, which answers to these values of the header Host."""
    inner = Starlette(
        routes=[route for kind in SCREENS for route in kind(lab).routes()],
        exception_handlers=dict.fromkeys(_ERRORS, problem_of),
    )
    inner.router.redirect_slashes = False
    return Guard(inner, lab.owners, hosts, HEADERS, rates or Rates())
