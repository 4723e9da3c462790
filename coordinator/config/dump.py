"""A configuration as a TOML file for `marless train`: every key with its meaning."""

import json
from typing import Any

import msgspec

from coordinator.config.schema import RunConfig, explained_keys, valid_keys


def document(config: RunConfig, plug_ins: bool = False) -> str:
    """Valid TOML with every key; keys without a value are comments. Reading it returns `config`.

    With `plug_ins` rules of other packages are explained too, which needs a scan of all installed packages.
    """
    values = msgspec.to_builtins(config)
    means = (explained_keys if plug_ins else valid_keys)(values["algorithm"]["name"])
    return "\n".join(_table("", values, means)).lstrip("\n") + "\n"


def _table(path: str, values: dict[str, Any], means: dict[str, str]) -> list[str]:
    """Plain values first: in TOML what follows a table's header belongs to that table."""
    prefix = f"{path}." if path else ""
    lines, tables = [], []
    for name, value in values.items():
        if isinstance(value, dict) and f"{prefix}{name}" not in means:
            tables += ["", f"[{prefix}{name}]", *_table(f"{prefix}{name}", value, means)]
        elif isinstance(value, dict):
            tables += [
                "",
                f"# {means[f'{prefix}{name}']}",
                f"[{prefix}{name}]",
                *(_line(*pair) for pair in value.items()),
            ]
        else:
            lines += [f"# {means[f'{prefix}{name}']}", _line(name, value)]
    return lines + tables


def _line(name: str, value: Any) -> str:
    key = name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)
    return f"# {key} =" if value is None else f"{key} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        # A JSON string without escaped surrogates is a TOML basic string; DEL must be escaped in TOML alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value).lower() if isinstance(value, bool) else repr(value)
