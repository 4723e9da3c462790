"""A configuration as a TOML file for `marless train`: every key with its meaning."""

import json
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from marless.coordinator.config.config_keys import explained_keys, general, valid_keys
from marless.coordinator.config.schema import RunConfig

# The tables and keys that a user's file usually sets.
SHORT = ("seed", "task", "algorithm", "actors", "evaluation", "stop", "log")


def document(
    config: RunConfig,
    plug_ins: bool = False,
    origins: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> str:
    """Return valid TOML with every key. Keys without a value are comments. Reading it returns `config`.

    With `plug_ins` rules of other packages are explained too, which needs a scan of all installed packages. `origins`
    has a value's source by dotted key, written as a comment after it. `only` selects keys and tables.
    """
    values = msgspec.to_builtins(config)
    values = values if only is None else selection(values, only)
    means = (explained_keys if plug_ins else valid_keys)(values["algorithm"]["name"])
    return "\n".join(_table("", values, means, origins or {})).lstrip("\n") + "\n"


def selection(values: Mapping[str, Any], names: Collection[str], prefix: str = "") -> dict[str, Any]:
    """Of nested tables the keys and tables with these dotted names."""
    selected_values: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if key in names:
            selected_values[name] = value
        elif isinstance(value, dict) and (below := selection(value, names, f"{key}.")):
            selected_values[name] = below
    return selected_values


def _table(path: str, values: dict[str, Any], means: dict[str, str], origins: Mapping[str, str]) -> list[str]:
    """Plain values come first: in TOML all later keys belong to the last table header."""
    prefix = f"{path}." if path else ""
    lines, tables = [], []
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in means:
            header = ["", f"[{key}]"] if not all(isinstance(item, dict) for item in value.values()) else []
            tables += [*header, *_table(key, value, means, origins)]
        elif isinstance(value, dict):
            options = (_line(*option, origins.get(f"{key}.{option[0]}")) for option in value.items())
            tables += ["", f"# {means[key]}", f"[{key}]", *options]
        else:
            lines += [f"# {means[general(key)]}", _line(name, value, origins.get(key))]
    return lines + tables


def _line(name: str, value: Any, origin: str | None) -> str:
    key = name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)
    note = f"  # {' '.join(origin.split())}" if origin else ""
    return f"# {key} =" if value is None else f"{key} = {toml_value(value)}{note}"


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        # A JSON string without escaped surrogates is a TOML basic string. DEL must be escaped in TOML alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value).lower() if isinstance(value, bool) else repr(value)
