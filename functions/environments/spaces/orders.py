"""Sorts equal entities in observations, see `task.order`. Numpy alone, because exported policies hold this file.

A rule gives each entity a key, and the smallest key comes first. Entities with equal keys keep their order, so results
are exact. Keys are float32, computed with additions, products and square roots in one order. Absent entities come last.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Each rule, and whether the distance of the nearest teammate is subtracted from the agent's own distance.
RULES = {"distance": False, "relation": True}


class Block(NamedTuple):
    """A block of equal entities."""

    columns: NDArray[np.intp]
    """``[entities, features]``."""
    position: NDArray[np.intp]
    """The columns of their positions ``[entities, coordinates]``."""
    absent: NDArray[np.float32]
    """The features of an absent entity. Empty if all are always present."""

    @classmethod
    def of(cls, block: Mapping[str, Any]) -> "Block":
        """Return the arrays of a described block."""
        columns = np.array(block["columns"], np.intp)
        position = columns[:, np.array(block.get("position", ()), np.intp)]
        return cls(columns, position, np.array(block.get("absent", ()), np.float32))


class SortedBlock(NamedTuple):
    """A block that is sorted, and the teammates that count in its keys."""

    block: Block
    teammates: tuple[Block, ...]


class EntityOrder:
    """Sorts the entities that `entities` describes, a `marless.functions.environments.entities.description.Entities` as
    JSON holds it. Blocks of one entity, without positions, or with entities that actions name stay unchanged.
    """

    def __init__(self, rule: str, entities: Mapping[str, Any]) -> None:
        self.document = {"rule": rule, "entities": entities}
        described = [block for block in entities["blocks"] if block.get("position")]
        teammates = tuple(Block.of(block) for block in described if block.get("teammates", False) and RULES[rule])
        self.origin = np.array(entities.get("origin", ()), np.intp)
        self.blocks = tuple(
            SortedBlock(Block.of(block), () if block.get("teammates", False) else teammates)
            for block in described
            if len(block["columns"]) > 1 and block.get("first_action") is None
        )

    def sort(self, rows: Array) -> Array:
        """Return observations ``[..., columns]`` with sorted blocks."""
        result = rows.copy(order="K")
        for block, teammates in self.blocks:
            places = np.argsort(self._keys(rows, block, teammates), axis=-1, kind="stable")
            result[..., block.columns] = np.take_along_axis(rows[..., block.columns], places[..., None], axis=-2)
        return result

    def _keys(self, rows: Array, block: Block, teammates: Sequence[Block]) -> Array:
        position = rows[..., block.position]
        keys = _length(position - rows[..., None, self.origin] if self.origin.size else position)
        if teammates:
            distances = [_distances(rows, position, teammate) for teammate in teammates]
            nearest = np.concatenate(distances, axis=-1).min(axis=-1)
            keys = keys - np.where(nearest == np.inf, np.float32(0), nearest)
        return np.where(_are_absent(rows, block), np.float32(np.inf), keys) if block.absent.size else keys


def _distances(rows: Array, position: Array, others: Block) -> Array:
    """Return the distances ``[..., entities, others]``, infinite for absent others."""
    distances = _length(position[..., :, None, :] - rows[..., None, others.position])
    if not others.absent.size:
        return distances
    return np.where(_are_absent(rows, others)[..., None, :], np.float32(np.inf), distances)


def _are_absent(rows: Array, block: Block) -> Array:
    return np.asarray((rows[..., block.columns] == block.absent).all(axis=-1))


def _length(differences: Array) -> Array:
    """Return the Euclidean length of differences ``[..., coordinates]``, summed coordinate by coordinate."""
    total = differences[..., 0] * differences[..., 0]
    for coordinate in range(1, differences.shape[-1]):
        total = total + differences[..., coordinate] * differences[..., coordinate]
    return np.asarray(np.sqrt(total))
