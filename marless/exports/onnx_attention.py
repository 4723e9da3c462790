"""Attention over entities as nodes of an ONNX graph."""

import numpy as np
from onnx import TensorProto

from marless.exports.onnx_nodes import Nodes
from marless.functions.environments.entities.description import EntityBlock
from marless.functions.nn.entities.attention import EntityAttention
from marless.functions.nn.entities.forward_pass import HEADS
from marless.functions.nn.layers import EPSILON

_NONE = -1e30  # the score of an absent entity: its share is 0


def entity_attention(nodes: Nodes, value: str, layer: EntityAttention) -> tuple[str, str]:
    """Add the nodes of the layer for the inputs `value` ``[rows, in]``.

    Return its outputs ``[rows, 2 w]``, and the results of all tokens ``[rows, N, w]``.
    """
    tokens, present = _tokens(nodes, value, layer)
    gain, shift = nodes.constant(layer.gain), nodes.constant(layer.shift)
    normed = nodes.add("LayerNormalization", tokens, gain, shift, axis=-1, epsilon=EPSILON)
    context = nodes.add("MatMul", _context(nodes, normed, present, layer), nodes.constant(layer.out))
    features = nodes.add("Add", nodes.add("Add", tokens, context), nodes.constant(layer.out_bias))
    own_features = nodes.add("Squeeze", nodes.add("Gather", features, nodes.integers(0), axis=1), nodes.integers(1))
    weights = nodes.add("Unsqueeze", present, nodes.integers(2))
    total = nodes.add("ReduceSum", nodes.add("Mul", features, weights), nodes.integers(1), keepdims=0)
    count = nodes.add("ReduceSum", present, nodes.integers(1), keepdims=1)
    return nodes.add("Concat", own_features, nodes.add("Div", total, count), axis=-1), features


def with_scores(nodes: Nodes, value: str, features: str, layer: EntityAttention) -> str:
    """Add the scores of the tokens that actions name, see `Attention.with_scores`."""
    if not (places := layer.places()):
        return value
    width, end = len(layer.out), nodes.integers(np.iinfo(np.int64).max)

    def part(start: int, stop: str) -> str:
        return nodes.add("Slice", value, nodes.integers(start), stop, nodes.integers(1))

    moves, bias = part(0, nodes.integers(-width - 1)), part(-width - 1, nodes.integers(-width))
    query = nodes.add("Mul", nodes.add("Unsqueeze", part(-width, end), nodes.integers(2)), nodes.numbers(width**-0.5))
    tokens = nodes.add("Gather", features, nodes.constant(np.array(places, np.int64)), axis=1)
    scores = nodes.add("Squeeze", nodes.add("MatMul", tokens, query), nodes.integers(2))
    return nodes.add("Concat", moves, nodes.add("Add", scores, bias), axis=-1)


def _tokens(nodes: Nodes, value: str, layer: EntityAttention) -> tuple[str, str]:
    """Return the tokens ``[rows, N, w]``, and 1 for each present token ``[rows, N]``."""
    parts = zip((EntityBlock("own", (layer.entities.own,)), *layer.entities.blocks), layer.embeddings, strict=True)
    tokens, present = [], []
    for block, (weight, bias) in parts:
        features = nodes.add("Gather", value, nodes.constant(np.array(block.columns, np.int64)), axis=1)
        tokens.append(nodes.add("Add", nodes.add("MatMul", features, nodes.constant(weight)), nodes.constant(bias)))
        compared = features if block.absent else tokens[-1]
        equal = nodes.add("Equal", compared, nodes.numbers(*(block.absent or (np.nan,))))
        absent = nodes.add("ReduceMin", nodes.add("Cast", equal, to=TensorProto.FLOAT), nodes.integers(-1), keepdims=0)
        present.append(nodes.add("Sub", nodes.numbers(1), absent))
    return nodes.add("Relu", nodes.add("Concat", *tokens, axis=1)), nodes.add("Concat", *present, axis=1)


def _context(nodes: Nodes, normed: str, present: str, layer: EntityAttention) -> str:
    """Return the weighted values of present tokens ``[rows, N, w]``, the heads side by side."""
    width = len(layer.out)
    products = nodes.add("MatMul", normed, nodes.constant(layer.qkv))
    by_head = nodes.add("Reshape", products, nodes.integers(0, 0, 3, HEADS, width // HEADS))
    parts = nodes.split("Split", nodes.add("Transpose", by_head, perm=[2, 0, 3, 1, 4]), parts=3, axis=0, num_outputs=3)
    query, key, value = (nodes.add("Squeeze", part, nodes.integers(0)) for part in parts)
    scores = nodes.add("MatMul", query, nodes.add("Transpose", key, perm=[0, 1, 3, 2]))
    scaled = nodes.add("Mul", scores, nodes.numbers((width // HEADS) ** -0.5))
    mask = nodes.add("Cast", nodes.add("Unsqueeze", present, nodes.integers(1, 2)), to=TensorProto.BOOL)
    shares = nodes.add("Softmax", nodes.add("Where", mask, scaled, nodes.numbers(_NONE)), axis=-1)
    context = nodes.add("Transpose", nodes.add("MatMul", shares, value), perm=[0, 2, 1, 3])
    return nodes.add("Reshape", context, nodes.integers(0, 0, width))
