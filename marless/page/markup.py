"""HTML: every value that is not marked as HTML is text, which is redacted and escaped."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

from marless.functions.text.redaction import redact


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def html(value: object) -> Html:
    """`value` as HTML. Secrets of this process's environment become their names."""
    return value if isinstance(value, Html) else Html(escape(redact(str(value))))


def join(parts: Iterable[object], between: str = "") -> Html:
    """All parts one after the other."""
    return Html(between.join(html(part) for part in parts))


def element(tag: str, *parts: object, **attributes: object) -> Html:
    """``<tag ...>parts</tag>``. `class_` and `for_` lose the underscore, the others write it as ``-``."""
    attribute_text = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html(value)}"' for name, value in attributes.items()
    )
    return Html(f"<{tag}{attribute_text}>{join(parts)}</{tag}>")


def table(
    header: Sequence[object], rows: Iterable[Sequence[object]], numbers: Sequence[int] = (), foot: Sequence[object] = ()
) -> Html:
    """A table that the page's script can sort, except its last row `foot`. `numbers` are columns of numbers."""

    def cells(tag: str, row: Sequence[object]) -> Html:
        return join(
            element(tag, cell, class_="n") if column in numbers else element(tag, cell)
            for column, cell in enumerate(row)
        )

    body = join(element("tr", cells("td", row)) for row in rows)
    head = element("thead", element("tr", cells("th", header)))
    last = element("tfoot", element("tr", cells("td", foot))) if foot else Html("")
    return element("div", element("table", head, element("tbody", body), last), class_="scroll")


def pairs(items: Iterable[tuple[object, object]]) -> Html:
    """Names with their values, as a table of two columns without a header."""
    rows = join(element("tr", element("th", name, scope="row"), element("td", value)) for name, value in items)
    return element("div", element("table", element("tbody", rows), class_="pairs"), class_="scroll")


def bullets(sentences: Iterable[object]) -> Html:
    """A list."""
    return element("ul", *(element("li", sentence) for sentence in sentences))


def picture(body: bytes, kind: str, text: str) -> Html:
    """A picture inside of the page."""
    return Html(f'<img src="data:{kind};base64,{b64encode(body).decode()}" alt="{html(text)}">')
