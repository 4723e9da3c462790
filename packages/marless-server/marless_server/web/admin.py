"""The screen of administrators: owners with their quotas and tokens, the disk, and the audit."""

import math
import shutil
from collections.abc import Callable, Mapping
from urllib.parse import quote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from marless.coordinator.errors import UserError
from marless.page.markup import Html, element, html, pairs, table
from marless.reports.text import money, size
from marless_server.store.database import FILE
from marless_server.store.owners import LIMITS, RIGHTS, Owner
from marless_server.store.runs import Usage
from marless_server.web import page_parts as parts
from marless_server.web.api import caller, form_fields
from marless_server.web.layout import box, field, form, hidden, page, refusal
from marless_server.web.problems import Problem
from marless_server.web.resources import Lab

_Endpoint = Callable[[Request], Response]

_SCREEN, _MOST_DEEDS = "/admin", 100
_LABELS = {
    "weight": "Weight: share of the pool",
    "at_once": "Runs that train at once",
    "slot_seconds": "Slot-seconds per day",
    "dollars": "Dollars per day",
    "disk_gb": "Disk, in GB",
    "keep_days": "Days until old runs are deleted",
}
_RIGHT_LABELS = {"code": "may name code, programs and files", "admin": "may change all owners here"}


class AdminPages:
    """The pages of administrators. For everybody else there is nothing at their addresses."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def routes(self) -> list[Route]:
        """Return the routes of the pages."""
        owner = f"{_SCREEN}/owners/{{owner}}"
        posts: dict[str, _Endpoint] = {
            _SCREEN: self._add, owner: self._change, f"{owner}/tokens": self._issue, f"{owner}/revoke": self._revoke,
            f"{owner}/remove": self._remove,
        }  # fmt: skip
        return [
            Route(_SCREEN, _for_admins(self._show)),
            Route(owner, _for_admins(self._show_owner)),
            *(
                Route(path, _for_admins(self._answering(endpoint)), methods=["POST"])
                for path, endpoint in posts.items()
            ),
        ]

    def _answering(self, endpoint: _Endpoint) -> _Endpoint:
        """Return an endpoint that shows the page again with the line about an error."""

        def _answer(request: Request) -> Response:
            form_fields(request)
            try:
                return endpoint(request)
            except UserError as error:
                show = self._show_owner if "owner" in request.path_params else self._show
                return show(request, [refusal(str(error))], 422)

        return _answer

    def _show(self, request: Request, remarks: list[Html] | None = None, status: int = 200) -> Response:
        sender, usage = caller(request), self._lab.runs.used_today()
        content = [
            *(remarks or []),
            element("h2", "Owners"),
            self._owner_table(usage),
            element("h3", "Add an owner"),
            form(sender, _SCREEN, "Add", field("name", "Name", required="", maxlength=60)),
            element("h2", "Disk"),
            self._disk(usage),
            element("h2", f"Audit: the last {_MOST_DEEDS} requests that changed something"),
            parts.deed_table(self._lab.runs.deeds(None, _MOST_DEEDS)),
        ]
        return page(sender, "Admin", content, _SCREEN, status)

    def _owner_table(self, usage: Mapping[str, Usage]) -> Html:
        header = ("owner", "weight", "at once", "slot-seconds today", "dollars today", "GB", "keep days", "rights")
        rows = []
        for owner in self._lab.owners.all().values():
            used = usage[owner.name]
            rows.append(
                (
                    element("a", owner.name, href=_path(owner.name)), f"{owner.weight:g}", _limit(owner.at_once),
                    _part(f"{used.slot_seconds:,.0f}", owner.slot_seconds),
                    _part(money(used.dollars), owner.dollars), _part(f"{used.bytes / 1e9:.1f}", owner.disk_gb),
                    _limit(owner.keep_days), " ".join(owner.rights) or parts.NONE,
                )
            )  # fmt: skip
        return table(header, rows, numbers=(1, 2))

    def _disk(self, usage: Mapping[str, Usage]) -> Html:
        disk, file = shutil.disk_usage(self._lab.root), self._lab.root.parent / FILE
        used = sum(row.bytes for row in usage.values())
        rows = [
            ("free", parts.meter(disk.free / disk.total, f"{size(disk.free)} of {size(disk.total)}")),
            ("runs that stopped or ended", size(used)),
            ("queue, owners and audit", size(file.stat().st_size) if file.exists() else parts.NONE),
        ]
        return pairs(rows)

    def _show_owner(self, request: Request, remarks: list[Html] | None = None, status: int = 200) -> Response:
        sender, owner = caller(request), self._owner(request)
        path = _path(owner.name)
        tokens = [
            (
                token.id, parts.time(token.created_at),
                html(f"revoked {parts.time(token.revoked)}")
                if token.revoked
                else form(sender, f"{path}/revoke", "Revoke", hidden("token", token.id)),
            )
            for token in self._lab.owners.tokens(owner.name)
        ]  # fmt: skip
        limits = [
            field(name, label, _limit(getattr(owner, name), ""), inputmode="decimal", placeholder="no limit")
            for name, label in _LABELS.items()
        ]
        rights = [box(name, label, getattr(owner, name)) for name, label in _RIGHT_LABELS.items()]
        content = [
            *(remarks or []),
            form(sender, path, "Save", *limits, *rights),
            element("h2", "Tokens"),
            table(("token", "made", "state"), tokens) if tokens else element("p", "None yet.", class_="note"),
            form(sender, f"{path}/tokens", "Issue a token"),
            element("h2", "Requests that changed something"),
            parts.deed_table(self._lab.runs.deeds(owner.name, _MOST_DEEDS)),
            element("h2", "Remove"),
            element("p", "An owner without runs can be removed, with all tokens. The audit stays.", class_="note"),
            form(sender, f"{path}/remove", f"Remove {owner.name}"),
        ]
        return page(sender, owner.name, content, _SCREEN, status)

    def _add(self, request: Request) -> Response:
        name = form_fields(request).get("name", "").strip()
        self._lab.owners.add(Owner(name=name))
        self._lab.note(caller(request), "owner add", name)
        return RedirectResponse(_path(name), 303)

    def _change(self, request: Request) -> Response:
        owner = self._owner(request)
        new = _changed(owner, form_fields(request))
        self._lab.owners.change(new)
        changes = [name for name in (*LIMITS, *RIGHTS) if getattr(owner, name) != getattr(new, name)]
        changed = " ".join(f"{name}={getattr(new, name)}" for name in changes)
        self._lab.note(caller(request), "owner change", f"{owner.name} {changed}")
        return RedirectResponse(_path(owner.name), 303)

    def _issue(self, request: Request) -> Response:
        owner = self._owner(request)
        token = self._lab.owners.new_token(owner.name)
        self._lab.note(caller(request), "token", f"{owner.name} {token.split('-')[1]}")
        notice = element("p", "This token is shown once. Its owner keeps it in ~/.config/marless/server-token.")
        return self._show_owner(request, [notice, element("pre", token)])

    def _revoke(self, request: Request) -> Response:
        owner, token = self._owner(request), form_fields(request).get("token", "")
        if token not in {row.id for row in self._lab.owners.tokens(owner.name)}:
            raise UserError(f"{owner.name} has no such token")
        self._lab.owners.revoke(token)
        self._lab.note(caller(request), "revoke", f"{owner.name} {token}")
        return RedirectResponse(_path(owner.name), 303)

    def _remove(self, request: Request) -> Response:
        owner = self._owner(request)
        self._lab.owners.remove(owner.name)
        self._lab.note(caller(request), "owner remove", owner.name)
        return RedirectResponse(_SCREEN, 303)

    def _owner(self, request: Request) -> Owner:
        if owner := self._lab.owners.all().get(request.path_params["owner"]):
            return owner
        raise Problem(404, "there is no such owner", "owner")


def _for_admins(endpoint: _Endpoint) -> _Endpoint:
    def _answer(request: Request) -> Response:
        if not caller(request).owner.admin:
            raise Problem(404, "there is nothing at this address")
        return endpoint(request)

    return _answer


def _changed(owner: Owner, fields: Mapping[str, str]) -> Owner:
    """Return the owner with the limits and rights of a form. Raises `UserError` for a text that is no number."""
    values: dict[str, float | None] = {}
    for name in LIMITS:
        text = fields.get(name, "").strip()
        try:
            values[name] = float(text) if text else None
        except ValueError:
            raise UserError(f"{name}: {text[:40]!r} is no number") from None
    if values["weight"] is None:
        raise UserError("weight: write a number, such as 1")
    if (at_once := values["at_once"]) is not None:
        if not math.isfinite(at_once) or at_once % 1:
            raise UserError(f"at_once: {at_once:g} is no whole number")
        values["at_once"] = int(at_once)
    return replace(owner, **values, **{name: name in fields for name in RIGHTS})


def _part(used: str, limit: float | None) -> str:
    return used if limit is None else f"{used} of {limit:,g}"


def _limit(value: float | None, none: str = "no limit") -> str:
    return none if value is None else f"{value:g}"


def _path(owner: str) -> str:
    return f"{_SCREEN}/owners/{quote(owner, safe='')}"
