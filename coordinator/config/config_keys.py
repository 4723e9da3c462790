"""The keys of a configuration that exist, with their meanings."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Meta

from marless.coordinator.config.schema import DEFAULT_ALGORITHM, RunConfig
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.rules.grouping import GROUPINGS
from marless.coordinator.rules.league import LEAGUE_RULES
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.coordinator.rules.sharing import BASES, SHARING_MODES
from marless.coordinator.rules.similarity import DISTANCES
from marless.coordinator.rules.trend import TRENDS
from marless.functions.algorithms import registry as algorithms
from marless.functions.plug_in_registry import Family

# `EnvTask` is defined in `functions`, without descriptions.
_TASK_KEYS = {
    "task.name": "the environment, such as mpe/simple_spread, or pettingzoo:package.module:factory",
    "task.agents": "number of agents, adversaries included. Default: the environment's own number",
    "task.options": "keyword arguments of the environment",
    "task.judge": "the resource that grades finished episodes. Default: none",
    "task.order": "the order of equal entities in observations: index, distance or relation",
    "task.last_action": "observations end with the agent's last action, for recurrent networks",
}
# Tables whose keys are the environment's.
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
    """Every key a user can set, dotted, with its description; `algorithm` picks the hyper-parameters listed.

    Raises `BadRequest` for an unknown algorithm.
    """
    name = {"algorithm.name": f"one of {', '.join(algorithms.names())}"}
    return {**_descriptions(_settings(algorithm)), **name, **_TASK_KEYS}


def key_types(algorithm: str | None = None) -> dict[str, Any]:
    """The annotated type of every key of `valid_keys`."""
    return dict(_key_types(_settings(algorithm)))


def _settings(algorithm: str | None) -> type[msgspec.Struct]:
    return algorithms.algorithm(algorithm or DEFAULT_ALGORITHM).config


# A list of many runs asks for both many times.
@cache
def _key_types(settings: type[msgspec.Struct]) -> Mapping[str, Any]:
    return dict(_types(RunConfig, settings, ""))


@cache
def _descriptions(settings: type[msgspec.Struct]) -> Mapping[str, str]:
    return {key: description(annotation) for key, annotation in _key_types(settings).items()}


def explained_keys(algorithm: str | None = None) -> dict[str, str]:
    """As `valid_keys`, with the rules of other packages explained too."""
    return valid_keys(algorithm) | {key: family.listing(plug_ins=True) for key, family in RULES.items()}


def _types(struct: type[msgspec.Struct], settings: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, Any]]:
    for item in msgspec.structs.fields(struct):
        name = f"{prefix}{item.encode_name}"
        if name == "algorithm":
            yield "algorithm.name", str
            yield from _types(settings, settings, "algorithm.")
        elif isinstance(item.type, type) and issubclass(item.type, msgspec.Struct):
            yield from _types(item.type, settings, f"{name}.")
        elif (table := named_table(item.type)) is not None:
            yield from _types(table, settings, f"{name}.{NAME}.")
        else:
            yield name, item.type


def named_table(annotation: Any) -> type[msgspec.Struct] | None:
    """The class of tables that have names of the user's; None for another type."""
    item = get_args(annotation)[-1] if get_origin(annotation) is dict else None
    return item if isinstance(item, type) and issubclass(item, msgspec.Struct) else None


NAMED_TABLES = {
    field.encode_name: table
    for field in msgspec.structs.fields(RunConfig)
    if (table := named_table(field.type)) is not None
}
"""The classes of such tables, by the table that holds them."""


def is_option(key: str) -> bool:
    """Whether the key is one of the environment's own, as ``task.options.horizon``."""
    return key.startswith(tuple(f"{table}." for table in OPTIONS))


def general(key: str) -> str:
    """The key of `valid_keys` that stands for `key`, with `NAME` in place of a name of the user's."""
    table, _, rest = key.partition(".")
    _, dot, field = rest.partition(".")
    return f"{table}.{NAME}{dot}{field}" if rest and table in NAMED_TABLES else key


def particular(text: str, key: str) -> str:
    """A `text` about general keys, with the user's name of `key` in them."""
    table, _, rest = key.partition(".")
    name = rest.partition(".")[0]
    return text.replace(f"{table}.{NAME}", f"{table}.{name}") if name and table in NAMED_TABLES else text


def description(annotation: Any) -> str:
    """The description in an annotated type, or in a member of a union."""
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    return next((text for part in get_args(annotation) if (text := description(part))), "")
