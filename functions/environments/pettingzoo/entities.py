"""The entities in observations of a PettingZoo environment, as its attribute `entities` describes them.

The attribute holds plain dictionaries, lists and numbers. It has the fields of
`marless.functions.environments.entities.description.Entities`, for all agents or in a dictionary by agent. Columns
count the numbers that networks take of an observation. Attributes of another form describe nothing, such as a list of
sprites.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from marless.functions.encoding import mismatch
from marless.functions.environments.entities.description import Entities
from marless.functions.environments.pettingzoo.horizon import attribute


def entities_of(agent: str, environment: Any, key: Any, size: int) -> Entities | None:
    """Return the entities in agent `key`'s observations of `size` numbers, if the environment describes them.

    Raises `ValueError`, one line that names the `agent` and the field.
    """
    # A `TurnEnvironment` holds a game.
    holders = (environment, attribute(environment, "game"))
    stated = next(filter(None, (_description(attribute(holder, "entities"), key) for holder in holders)), None)
    if stated is None:
        return None
    try:
        entities = msgspec.convert(stated, Entities)
    except msgspec.ValidationError as error:
        raise ValueError(f"{agent}: {mismatch(error).below('entities')}") from error
    if fault := entities.fault(size):
        raise ValueError(f"{agent}: entities: {fault}")
    return entities


def _description(stated: Any, key: Any) -> Mapping[str, Any] | None:
    if isinstance(stated, Mapping) and "blocks" not in stated:
        stated = stated.get(key, stated.get(str(key)))
    return stated if isinstance(stated, Mapping) and "blocks" in stated else None
