"""Pieces of Markdown."""

import inspect
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as types

from marless.reports.text import markdown_table

DATA = Path(__file__).parents[2] / "docs" / "data"
GENERATED = "<!-- Written by `make docs`; edit {sources} instead. -->"


def data(name: str) -> dict[str, Any]:
    """The contents of a TOML file of docs/data."""
    return tomllib.loads((DATA / name).read_text(encoding="utf-8"))


def page(title: str, sources: str, parts: Iterable[str]) -> str:
    """A whole file generated from `sources`."""
    return "\n\n".join([f"# {title}", GENERATED.format(sources=sources), *parts]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, one line per row, without padding: a changed cell changes one line."""
    return markdown_table(header, list(rows), aligned=False)


def code(text: str) -> str:
    """Return `text` in code font, or '' for ''."""
    return f"`{text}`" if text else ""


def escaped(text: str) -> str:
    """Prose for a cell of a table, with bars and angle brackets escaped."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def paragraph(documented: object) -> str:
    """Return the first paragraph of a docstring in one line. Double backquotes become single ones."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("``", "`")


def value(default: Any) -> str:
    """Return a default in TOML's notation, or '' for None and for tables."""
    if default is None or isinstance(default, msgspec.Struct | dict):
        return ""
    if isinstance(default, bool):
        return code(str(default).lower())
    if isinstance(default, list | tuple):
        return code(f"[{', '.join(map(str, default))}]")
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return code(f"{default:,}".replace(",", "_") if isinstance(default, int) else str(default))


_PLAIN: dict[type, str] = {
    types.BoolType: "true or false",
    types.StrType: "text",
    types.ListType: "list",
    types.TupleType: "list",
    types.VarTupleType: "list",
    types.DictType: "table",
    types.StructType: "table",
}


def kind(found: types.Type) -> str:
    """The type of a setting with its bounds, in words."""
    if isinstance(found, types.Metadata):
        return kind(found.type)
    if isinstance(found, types.UnionType):
        return " or ".join(kind(part) for part in found.types if not isinstance(part, types.NoneType))
    if isinstance(found, types.LiteralType):
        return "one of " + ", ".join(code(str(choice)) for choice in found.values)
    if isinstance(found, types.IntType | types.FloatType):
        return f"{'whole ' if isinstance(found, types.IntType) else ''}number{_bounds(found)}"
    return _PLAIN.get(type(found), "any")


def _bounds(found: types.IntType | types.FloatType) -> str:
    above = f" from {found.ge:g}" if found.ge is not None else f" above {found.gt:g}" if found.gt is not None else ""
    if found.le is not None and found.le < 2**53:
        return f"{above} to {found.le:g}"
    return f"{above}, below {found.lt:g}" if found.lt is not None else above
