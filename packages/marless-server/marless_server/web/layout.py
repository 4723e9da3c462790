"""The frame of all pages: their style, the links to all screens, and forms with a stamp."""

from collections.abc import Sequence
from importlib.resources import files

from starlette.responses import HTMLResponse, Response

from marless.page.markup import Html, element, join
from marless_server.web.guard import STAMP, Caller

_FILES = files("marless_server.web")
STYLE = files("marless.page").joinpath("page.css").read_text("utf-8") + _FILES.joinpath("page.css").read_text("utf-8")
SCRIPT = _FILES.joinpath("page.js").read_text("utf-8")
_SCREENS = {"/": "Pool", "/runs": "Runs", "/submit": "Submit", "/me": "Me"}
_ADMIN_SCREENS = {**_SCREENS, "/admin": "Admin"}


def page(
    sender: Caller, title: str, content: Sequence[Html], screen: str, status: int = 200, follows: bool = False
) -> Response:
    """Return a page. `screen` is the path of the screen that it belongs to.

    A page that `follows` the server replaces its live parts while it is open.
    """
    head = join(
        [
            Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'),
            element("title", f"{title} - MARLess"),
            Html(f"<style>{STYLE}</style>"),
        ]
    )
    links = [
        element("a", name, href=path, **({"aria_current": "page"} if path == screen else {}))
        for path, name in (_ADMIN_SCREENS if sender.owner.admin else _SCREENS).items()
    ]
    again = "Load the page again to see what changed."
    news = element("noscript", again) if follows else again
    note = element("footer", live("note", "Times are UTC. ", news))
    main = element("main", element("h1", title), *content, note, **({"data_follow": ""} if follows else {}))
    body = join([element("nav", *links), main, Html(f"<script>{SCRIPT}</script>") if follows else ""])
    return HTMLResponse(f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>', status)


def live(name: str, *content: object) -> Html:
    """Return a part of a page that follows the server. `name` is its place in the page."""
    return element("div", *content, id=name, data_live="")


def form(sender: Caller, action: str, button: str, *fields: Html) -> Html:
    """Return a form that changes something. Its stamp shows that a page of this server made it."""
    stamp = hidden(STAMP, sender.stamp)
    return element("form", stamp, *fields, element("button", button), action=action, method="post")


def field(name: str, label: str, value: object = "", **attributes: object) -> Html:
    """Return a field of a form."""
    return element("label", label, _input(name=name, value="" if value is None else value, **attributes))


def box(name: str, label: str, is_set: bool) -> Html:
    """Return a box of a form that can be chosen."""
    checked = {"checked": ""} if is_set else {}
    return element("label", _input(name=name, type="checkbox", value="yes", **checked), label, class_="box")


def hidden(name: str, value: str) -> Html:
    """Return a field of a form that is not shown."""
    return _input(name=name, type="hidden", value=value)


def refusal(line: str) -> Html:
    """Return the line about an error."""
    return element("p", line, class_="refused", role="alert")


def _input(**attributes: object) -> Html:
    return Html(element("input", **attributes).removesuffix("</input>"))
