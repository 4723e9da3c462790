"""docs/reference/configuration.md: every key of a run's configuration."""

import inspect
from collections.abc import Iterator
from typing import Any

import msgspec

from coordinator.config.config_keys import NAME, NAMED_TABLES, valid_keys
from coordinator.config.schema import RunConfig
from scripts.reference import markdown

_ABOUT = """\
A run is described by a TOML file, by `key=value` pairs, or by both; pairs come after the file. `marless config`
prints the effective configuration with every key and its meaning as a file to edit; `marless config
algorithm.name=vdn` that of an algorithm, `marless config task.name=smax/8m` that of an environment, since [families
of environments](algorithms.md#by-family-of-environments) have defaults of their own. A key that does not exist, or
a value that cannot be, is refused in one line that names the key.

Behind a value `marless config` says what set it, where it is not the default of this page: the command line, the file,
the task's family or the task itself, in this order of rank; or the algorithm or another key that implies it. `marless
config --json` prints a line for each key with its value and what set it (`set_by`).

In the printed file the engine stays `auto`, so the file works on every machine. The note behind it names the engine
of this machine. Numbers may lack a digit before or after their point: `algorithm.ent_coef=.03`.

The keys of the table `algorithm` are those of the algorithm: see [algorithms](algorithms.md#settings). Those of
`task.options` are the environment's: see [environments](environments.md)."""


def page() -> str:
    """The whole page."""
    config, known = RunConfig(), valid_keys()
    parts = [_ABOUT, "## Run", _table("", config, known)]
    for prefix, section in _sections("", config):
        if prefix != "algorithm":
            parts += [f"## {prefix}", inspect.cleandoc(section.__doc__ or ""), _table(prefix, section, known)]
    for name, table in NAMED_TABLES.items():
        prefix = f"{name}.{NAME}"
        parts += [f"## {prefix}", inspect.cleandoc(table.__doc__ or ""), _table(prefix, table, known)]
    return markdown.page("Configuration", "`coordinator/config/schema.py`", [part for part in parts if part])


def _sections(prefix: str, struct: msgspec.Struct) -> Iterator[tuple[str, msgspec.Struct]]:
    for field in msgspec.structs.fields(struct):
        below = getattr(struct, field.name)
        if isinstance(below, msgspec.Struct):
            name = f"{prefix}{field.encode_name}"
            yield name, below
            yield from _sections(f"{name}.", below)


def _table(prefix: str, struct: msgspec.Struct | type[msgspec.Struct], known: dict[str, str]) -> str:
    """The keys of a table; of a class, which stands for tables of any name, with the defaults of its fields."""
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
    return markdown.code(key), kind, markdown.value(default), markdown.escaped(known[key])
