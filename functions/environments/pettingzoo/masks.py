"""Masks of legal actions: where a PettingZoo environment gives them.

An agent's mask is the entry "action_mask" of its observation or of its info. In an observation it is next to
"observation" (PettingZoo's convention) or next to entries with other names. The first reset shows the mask's place. A
mask that comes or goes later is an error, because the legal actions would be unknown meanwhile.
"""

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from marless.functions.environments.base import Unsupported
from marless.functions.environments.spaces.space_types import DEEPEST

MASK = "action_mask"
# Other names of masks in environments of others. They are not read, and a remark says so.
_LOOKALIKES = (
    "action_masks",
    "mask",
    "masks",
    "legal_actions",
    "legal_moves",
    "valid_actions",
    "avail_actions",
    "available_actions",
    "invalid_actions",
)


class Place(enum.Enum):
    """The place of an agent's mask."""

    NOWHERE = enum.auto()
    # In ``{"observation": ..., "action_mask": ...}``.
    PAIR = enum.auto()
    # In an observation with entries of other names.
    BESIDE = enum.auto()
    INFO = enum.auto()


class FirstReset(NamedTuple):
    """The observations and infos of the first reset, by agent."""

    observations: Mapping[Any, Any] = {}
    infos: Mapping[Any, Any] = {}


NO_RESET = FirstReset()


def has_mask(entries: object) -> bool:
    """Return True if an observation or an info holds a mask. An entry of None does not count."""
    return isinstance(entries, Mapping) and entries.get(MASK) is not None


def unmasked_space(label: str, space: Any, key: Any, first_reset: FirstReset) -> tuple[Any, Place]:
    """The space of an agent's observations without the mask, and where the mask is.

    Raises `Unsupported` for a mask deeper within the observation.
    """
    from gymnasium import spaces

    entries = space.spaces if isinstance(space, spaces.Dict) else {}
    _require_flat(label, entries)
    if MASK not in entries and not has_mask(first_reset.observations.get(key)):
        return space, Place.INFO if has_mask(first_reset.infos.get(key)) else Place.NOWHERE
    others = [(name, part) for name, part in entries.items() if name != MASK]
    if [name for name, _ in others] == ["observation"]:
        return others[0][1], Place.PAIR
    if not entries:  # the space describes the content
        return space, Place.PAIR
    # An observation of a mask alone is the mask itself.
    return spaces.Dict(others) if others else space, Place.BESIDE


def _require_flat(label: str, entries: Mapping[Any, Any]) -> None:
    from gymnasium import spaces

    for name, entry in entries.items():
        level = [entry]
        for _ in range(DEEPEST):
            nested = [part for part in level if isinstance(part, spaces.Dict)]
            if any(MASK in part.spaces for part in nested):
                raise Unsupported(
                    f"{label} observes an {MASK} within its entry {name!r}, where it is not read: move it to the top of"
                    " the observation, or into the agent's info"
                )
            level = [
                part
                for space in level
                if isinstance(space, spaces.Dict | spaces.Tuple)
                for part in (space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)
            ]


def lookalike(key: Any, actions: int, first_reset: FirstReset) -> str:
    """The name of an entry with one number for each of the agent's `actions` that sounds like a mask, or ''."""
    for entries in (first_reset.observations.get(key), first_reset.infos.get(key)):
        if not isinstance(entries, Mapping):
            continue
        for name in _LOOKALIKES:
            if name in entries and _size(entries[name]) == actions:
                return name
    return ""


def _size(value: Any) -> int:
    try:
        return int(np.size(value))
    except ValueError:  # of lists of different lengths
        return -1
