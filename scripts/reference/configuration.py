"""docs/reference/configuration.md: every key of a run's configuration."""

from collections.abc import Iterator
from typing import Any

import msgspec

from marless.coordinator.config.config_keys import NAME, NAMED_TABLES, RULES, valid_keys
from marless.coordinator.config.schema import RunConfig
from scripts.reference import markdown
from scripts.reference.rules import QUESTIONS

_ABOUT = """\
You describe a run by a TOML file, by `key=value` pairs, or by both. Pairs come after the file and win over it.
A pair may leave out the table `task`, `algorithm`, `actors`, `evaluation`, `stop` or `log` (`lr=3e-4`), unless two of
these tables have the key.

`marless config` prints the effective configuration as a file that you can edit. It has the keys that the run uses, with
their meanings. With `--all`, it has every key. Add an algorithm (`marless config vdn`) or an environment
(`marless config smax/8m`) to see their defaults, because
[families of environments](algorithms.md#by-family-of-environments) have different defaults.

If a value is not the default of this page, `marless config` names its origin. From the highest rank to the lowest, the
origin is the command line, the file, the task's family or the task. It can also be the algorithm or another key.
`marless config --json` prints one line for each key, with its value and its origin (`set_by`).

The printed engine stays `auto`, so the file works on every machine. A note names the engine of this machine. Numbers
may lack a digit before or after their point: `ent_coef=.03`.

The keys of the table `algorithm` depend on the algorithm: see [algorithms](algorithms.md#settings). The keys of
`task.options` depend on the environment: see [environments](environments.md)."""


def page() -> str:
    """The whole page."""
    config, known = RunConfig(), valid_keys()
    parts = [_ABOUT, "## Run", _table("", config, known)]
    for prefix, section in _sections("", config):
        if prefix != "algorithm":
            parts += [f"## {prefix}", markdown.paragraph(section), _table(prefix, section, known)]
    for name, table in NAMED_TABLES.items():
        prefix = f"{name}.{NAME}"
        parts += [f"## {prefix}", markdown.paragraph(table), _table(prefix, table, known)]
    return markdown.page("Configuration", "`coordinator/config/schema.py`", [part for part in parts if part])


def _sections(prefix: str, struct: msgspec.Struct) -> Iterator[tuple[str, msgspec.Struct]]:
    for field in msgspec.structs.fields(struct):
        below = getattr(struct, field.name)
        if isinstance(below, msgspec.Struct):
            name = f"{prefix}{field.encode_name}"
            yield name, below
            yield from _sections(f"{name}.", below)


def _table(prefix: str, struct: msgspec.Struct | type[msgspec.Struct], known: dict[str, str]) -> str:
    """Return the keys of a table. A class is for tables of any name, with the defaults of its fields."""
    dot = f"{prefix}." if prefix else ""
    # The class of the table `algorithm` depends on a name, so only the other fields have inspectable types.
    fields = [field for field in msgspec.structs.fields(struct) if f"{dot}{field.encode_name}" in known]
    rows = [
        _row(
            f"{dot}{field.encode_name}",
            field.type,
            field.default if isinstance(struct, type) else getattr(struct, field.name),
            known,
        )
        for field in fields
    ]
    return markdown.table(("key", "type", "default", "meaning"), rows) if rows else ""


def _row(key: str, annotation: Any, default: Any, known: dict[str, str]) -> tuple[str, str, str, str]:
    kind = markdown.kind(msgspec.inspect.type_info(annotation))
    meaning = f"[rule](rules.md#{key.replace('.', '')}): {QUESTIONS[key]}" if key in RULES else known[key]
    return markdown.code(key), kind, markdown.value(default), markdown.escaped(meaning)
