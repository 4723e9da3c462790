"""Nested tables of settings, and their values by dotted key."""

from collections.abc import Mapping
from typing import Any


def flatten(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested tables by dotted key."""
    leaves: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            leaves |= flatten(value, f"{prefix}{name}.")
        else:
            leaves[f"{prefix}{name}"] = value
    return leaves


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of dotted keys."""
    document: dict[str, Any] = {}
    for key, value in values.items():
        *tables, name = key.split(".")
        table = document
        for part in tables:
            table = table.setdefault(part, {})
        table[name] = value
    return document


def merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `more`, table by table."""
    tables = {
        key: merge(base[key], value)
        for key, value in more.items()
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
    }
    return {**base, **more, **tables}
