"""Keys of earlier versions and their new names."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

from marless.coordinator.config.nested_tables import flatten, merge, nest

# Old names that files and commands may still have.
MOVED = {
    "scaling.rollouts": "actors.rollouts",
    "pipeline.rollouts": "pipeline.micro_batch",
    "placement.rollouts_per_invocation": "placement.pack",
    "placement.rounds": "placement.chain",
}
# Names in files and hashes of ablations.
STORED = {new: old for old, new in MOVED.items()}


@cache
def new_name(key: str) -> str:
    """Return the new name of a key. An old name is logged once."""
    if key in MOVED:
        logging.getLogger(__name__).warning("%s is now called %s", key, MOVED[key])
    return MOVED.get(key, key)


def with_new_names(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a run with the new names of its keys. Old names are logged once."""
    return renamed(document, {old: new_name(old) for old in filter(flatten(document).__contains__, MOVED)})


def renamed(document: Mapping[str, Any], names: Mapping[str, str] = MOVED) -> dict[str, Any]:
    """Return the tables with new `names` of keys. If both names have values, the new name wins."""
    for old in filter(flatten(document).__contains__, names):
        table, key = old.split(".")
        rest = {name: value for name, value in document[table].items() if name != key}
        document = merge(nest({names[old]: document[table][key]}), {**document, table: rest})
    return {**document}
