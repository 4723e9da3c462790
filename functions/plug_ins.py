"""Plug-ins that other packages declare as entry points."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points


def plug_ins(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of `group` by name, several where packages offer the same name."""
    return _read(group, tuple(sys.path))


@cache
def _read(group: str, path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Reads a file of every package installed in `path`, so it happens once."""
    offers: dict[str, tuple[EntryPoint, ...]] = {}
    for offer in entry_points(group=group):
        # A package that is installed twice counts once.
        offers[offer.name] = tuple(dict.fromkeys((*offers.get(offer.name, ()), offer)))
    return offers
