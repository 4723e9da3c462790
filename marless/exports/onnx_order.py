"""`task.order` in ONNX: the arithmetic of `marless.functions.environments.spaces.orders`, operation by operation."""

import numpy as np

from marless.exports.onnx_nodes import Nodes
from marless.functions.environments.spaces.orders import Array, Block, EntityOrder, SortedBlock


def sorted_entities(nodes: Nodes, order: EntityOrder, size: int) -> str:
    """Return the `size` numbers of observations with sorted blocks."""
    parts, columns = [], []
    for one in order.blocks:
        # TopK puts equal keys in the order of their indices.
        count = len(one.block.columns)
        keys = _keys(nodes, one, order.origin)
        places = nodes.split("TopK", keys, nodes.integers(count), parts=2, axis=-1, largest=0, sorted=1)[1]
        entities = _of(nodes, one.block.columns)
        in_order = nodes.add("GatherND", entities, nodes.add("Unsqueeze", places, nodes.integers(2)), batch_dims=1)
        parts.append(nodes.add("Flatten", in_order, axis=1))
        columns.append(one.block.columns.reshape(-1))
    rest = np.setdiff1d(np.arange(size), np.concatenate(columns))
    if rest.size:
        parts.append(_of(nodes, rest))
    back = nodes.constant(np.argsort(np.concatenate([*columns, rest])))
    return nodes.add("Gather", nodes.add("Concat", *parts, axis=1), back, axis=1)


def _keys(nodes: Nodes, one: SortedBlock, origin: Array) -> str:
    position = _of(nodes, one.block.position)
    relative = nodes.add("Sub", position, _of(nodes, origin[None])) if origin.size else position
    keys = _length(nodes, relative, one.block.position.shape[1])
    if one.teammates:
        distances = [_distances(nodes, position, other) for other in one.teammates]
        nearest = nodes.add("ReduceMin", nodes.add("Concat", *distances, axis=-1), nodes.integers(-1), keepdims=0)
        finite = nodes.add("Where", nodes.add("IsInf", nearest), nodes.numbers(0), nearest)
        keys = nodes.add("Sub", keys, finite)
    return _infinite_if_absent(nodes, keys, one.block, axis=None) if one.block.absent.size else keys


def _of(nodes: Nodes, columns: Array) -> str:
    return nodes.add("Gather", "observation", nodes.constant(columns), axis=1)


def _distances(nodes: Nodes, position: str, others: Block) -> str:
    """Return the distances ``[rows, entities, others]``, infinite for absent others."""
    entities = nodes.add("Unsqueeze", position, nodes.integers(2))
    differences = nodes.add("Sub", entities, nodes.add("Unsqueeze", _of(nodes, others.position), nodes.integers(1)))
    distances = _length(nodes, differences, others.position.shape[1])
    return _infinite_if_absent(nodes, distances, others, axis=1) if others.absent.size else distances


def _infinite_if_absent(nodes: Nodes, keys: str, block: Block, axis: int | None) -> str:
    """Return the keys, infinite for absent entities. `axis` is the one that absences lack."""
    equal = nodes.add("Equal", _of(nodes, block.columns), nodes.constant(block.absent))
    # All features are equal if the smallest of the numbers 0 and 1 is 1.
    numbers = nodes.add("Cast", equal, to=1)
    absent = nodes.add("Greater", nodes.add("ReduceMin", numbers, nodes.integers(-1), keepdims=0), nodes.numbers(0))
    if axis is not None:
        absent = nodes.add("Unsqueeze", absent, nodes.integers(axis))
    return nodes.add("Where", absent, nodes.numbers(np.inf), keys)


def _length(nodes: Nodes, differences: str, coordinates: int) -> str:
    """Return the lengths of differences ``[..., coordinates]``, summed coordinate by coordinate."""
    squares = nodes.add("Mul", differences, differences)
    parts = nodes.split("Split", squares, parts=coordinates, axis=-1, num_outputs=coordinates)
    total = parts[0]
    for part in parts[1:]:
        total = nodes.add("Add", total, part)
    return nodes.add("Sqrt", nodes.add("Squeeze", total, nodes.integers(-1)))
