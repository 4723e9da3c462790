"""The keys of a configuration that exist, with their meanings."""

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Meta

from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import DEFAULT_ALGORITHM, RunConfig
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.rules.grouping import GROUPINGS
from marless.coordinator.rules.league import LEAGUE_RULES
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.coordinator.rules.sharing import BASES, SHARING_MODES
from marless.coordinator.rules.similarity import DISTANCES
from marless.coordinator.rules.trend import TRENDS
from marless.functions.algorithms import registry as algorithms
from marless.functions.plug_in_registry import Family, is_reference

# Tables with keys of the environment.
OPTIONS = ("task.options", "evaluation.options")
NAME = "NAME"
"""Stands for the name that a user gives a table, as in ``resources.NAME.slots``."""
# The keys that name a rule, and the rules that they may name.
RULES: dict[str, Family[Any]] = {
    "trend.rule": TRENDS,
    "sharing.rule": SHARING_MODES,
    "sharing.distance": DISTANCES,
    "sharing.grouping": GROUPINGS,
    "sharing.base": BASES,
    "scaling.rule": SCALING_RULES,
    "placement.rule": PLACEMENTS,
    "league.rule": LEAGUE_RULES,
}


def valid_keys(algorithm: str | None = None) -> dict[str, str]:
    """Return every key a user can set, dotted, with its description. `algorithm` picks the hyper-parameters listed.

    Raises `BadRequest` for an unknown algorithm.
    """
    name = {"algorithm.name": f"one of {', '.join(algorithms.names())}"}
    return {**_descriptions(_settings(algorithm)), **name}


def key_types(algorithm: str | None = None) -> dict[str, Any]:
    """The annotated type of every key of `valid_keys`."""
    return dict(_key_types(_settings(algorithm)))


def _settings(algorithm: str | None) -> type[msgspec.Struct]:
    return algorithms.algorithm(algorithm or DEFAULT_ALGORITHM).config


# A list of many runs asks for both many times.
@cache
def _key_types(settings: type[msgspec.Struct]) -> Mapping[str, Any]:
    return {key: annotation for key, annotation, _, _ in _fields(RunConfig, settings, "")}


@cache
def _descriptions(settings: type[msgspec.Struct]) -> Mapping[str, str]:
    return {key: descriptions(struct).get(name, "") for key, _, struct, name in _fields(RunConfig, settings, "")}


def explained_keys(algorithm: str | None = None) -> dict[str, str]:
    """As `valid_keys`, with the rules of other packages explained too."""
    return valid_keys(algorithm) | {key: family.listing(plug_ins=True) for key, family in RULES.items()}


def _fields(
    struct: type[msgspec.Struct], settings: type[msgspec.Struct], prefix: str
) -> Iterator[tuple[str, Any, type[msgspec.Struct], str]]:
    """Yield each key with its type, the class that has it as a field, and the name of the field."""
    for item in msgspec.structs.fields(struct):
        name = f"{prefix}{item.encode_name}"
        if name == "algorithm":
            yield "algorithm.name", str, struct, item.name
            yield from _fields(settings, settings, "algorithm.")
        elif isinstance(item.type, type) and issubclass(item.type, msgspec.Struct):
            yield from _fields(item.type, settings, f"{name}.")
        elif (table := named_table(item.type)) is not None:
            yield from _fields(table, settings, f"{name}.{NAME}.")
        else:
            yield name, item.type, struct, item.name


def named_table(annotation: Any) -> type[msgspec.Struct] | None:
    """Return the class of the tables that users name, or None for another type."""
    item = get_args(annotation)[-1] if get_origin(annotation) is dict else None
    return item if isinstance(item, type) and issubclass(item, msgspec.Struct) else None


NAMED_TABLES = {
    field.encode_name: table
    for field in msgspec.structs.fields(RunConfig)
    if (table := named_table(field.type)) is not None
}
"""The classes of such tables, by the table that holds them."""


def imported_to_read(document: Mapping[str, Any]) -> list[str]:
    """Return the settings that import a module when the configuration is read, as ``key=value``."""
    values = flatten(document)
    keys = (key for key in ("algorithm.name", "scaling.priced_as", *RULES) if is_reference(values.get(key)))
    return [f"{key}={values[key]}" for key in keys]


def is_option(key: str) -> bool:
    """Return whether the key is an option of the environment, such as ``task.options.horizon``."""
    return key.startswith(tuple(f"{table}." for table in OPTIONS))


def general(key: str) -> str:
    """Return the key of `valid_keys` that covers `key`, with `NAME` in place of a user's name."""
    table, _, rest = key.partition(".")
    _, dot, field = rest.partition(".")
    return f"{table}.{NAME}{dot}{field}" if rest and table in NAMED_TABLES else key


def particular(text: str, key: str) -> str:
    """A `text` about general keys, with the user's name of `key` in them."""
    table, _, rest = key.partition(".")
    name = rest.partition(".")[0]
    return text.replace(f"{table}.{NAME}", f"{table}.{name}") if name and table in NAMED_TABLES else text


@cache
def descriptions(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """Return the description of each described field, from its annotated type or its line in `Attributes:`."""
    texts = dict(line for owner in reversed(struct.__mro__) for line in _attributes(owner.__doc__ or ""))
    return texts | {item.name: text for item in msgspec.structs.fields(struct) if (text := _annotated_text(item.type))}


def _attributes(docstring: str) -> list[tuple[str, str]]:
    block = inspect.cleandoc(docstring).partition("\nAttributes:\n")[2]
    items = re.split(r"^    (\w+): ", block, flags=re.MULTILINE)[1:]
    return [(name, " ".join(text.split())) for name, text in zip(items[::2], items[1::2], strict=True)]


def _annotated_text(annotation: Any) -> str:
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    return next((text for part in get_args(annotation) if (text := _annotated_text(part))), "")
