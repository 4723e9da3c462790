"""The forward pass of attention over entities. Numpy alone, because exported policies hold this file."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
HEADS = 2


class Attention(NamedTuple):
    """The arrays of a forward pass of R rows with N tokens, for the backward pass.

    `inputs` has an array for each type of token. `present` is ``[R, N]``, `tokens`, `normed` and `context` are
    ``[R N, w]``, `qkv` ``[3, R, heads, N, d]`` and `shares` ``[R, heads, N, N]``.
    """

    inputs: list[Array]
    present: Array
    tokens: Array
    norm: Any
    normed: Array
    qkv: Array
    shares: Array
    context: Array


class PlayedAttention:
    """A layer of an exported policy. It has the parameters and, as JSON, the entities of an `EntityAttention`.

    `norm` is the forward pass of the layer norm.
    """

    def __init__(self, entities: dict[str, Any], norm: Callable[[Array], Any], parameters: dict[str, Array]) -> None:
        vars(self).update(parameters)
        self._norm, self._own = norm, entities["own"]
        self._blocks = [(block["columns"], block.get("absent", ())) for block in entities["blocks"]]

    def forward(self, values: Array) -> tuple[Array, Attention]:
        """See `attend`."""
        return attend(self, self._own, self._blocks, self._norm, values)


def attend(
    layer: Any,
    own_columns: Sequence[int],
    blocks: Sequence[tuple[Any, Any]],
    norm: Callable[[Array], Any],
    values: Array,
) -> tuple[Array, Attention]:
    """Return the outputs ``[..., 2 w]`` of inputs ``[..., in]``. `blocks` are columns and the features of the absent.

    `layer` has the parameters of `EntityAttention`. Parameters of several networks have more axes in front.
    """
    *front, rows, _ = values.shape
    inputs, present = _inputs(own_columns, blocks, values)
    width, count = layer.out.shape[-1], present.shape[-1]
    pairs = zip(inputs, embeddings(layer, [len(columns[0]) for columns, _ in blocks]), strict=True)
    tokens = [(one @ weight + bias).reshape(*front, rows, -1, width) for one, (weight, bias) in pairs]
    joined = np.maximum(np.concatenate(tokens, axis=-2), 0).reshape(*front, rows * count, width)
    normed, cache = norm(joined)
    qkv = _by_head(normed @ layer.qkv, rows, 3)
    query, key, value = np.moveaxis(qkv, -4, 0)
    scores = query @ key.swapaxes(-1, -2)
    scores *= scores.dtype.type(query.shape[-1] ** -0.5)
    scores = np.where(present[..., None, None, :], scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    context = np.moveaxis(shares @ value, -3, -2).reshape(joined.shape)
    features = (joined + context @ layer.out + layer.out_bias).reshape(*front, rows, count, width)
    mean = (features * present[..., None]).sum(axis=-2) / present.sum(axis=-1, dtype=features.dtype)[..., None]
    outputs = np.concatenate([features[..., 0, :], mean], axis=-1)
    return outputs, Attention(inputs, present, joined, cache, normed, qkv, shares, context)


def embeddings(layer: Any, features: Sequence[int]) -> list[tuple[Array, Array]]:
    """Return the weights ``[..., features, w]`` and biases ``[..., 1, w]`` of the agent's token, and of each block's.

    `features` are the numbers of features of the blocks' entities.
    """
    agent_bias = layer.agent_bias if layer.agent_bias.ndim > 1 else layer.agent_bias[None]
    biases = (layer.block_bias[..., index : index + 1, :] for index in range(len(features)))
    weights = (layer.blocks[..., part, :] for part in rows_of(features))
    return [(layer.agent, agent_bias), *zip(weights, biases, strict=True)]


def rows_of(features: Sequence[int]) -> list[slice]:
    """Return the rows of the parameter `blocks` of each block."""
    return [slice(*pair) for pair in pairwise(accumulate(features, initial=0))]


def _inputs(
    own_columns: Sequence[int], blocks: Sequence[tuple[Any, Any]], values: Array
) -> tuple[list[Array], NDArray[np.bool_]]:
    """The inputs ``[..., rows x count, features]`` of each type, and the present tokens ``[..., rows, N]``."""
    *front, rows, _ = values.shape
    inputs, present = [values[..., list(own_columns)]], [np.ones((*front, rows, 1), np.bool_)]
    for columns, nothing in blocks:
        features = values[..., np.array(columns)]
        absent = len(nothing) > 0 and (features == np.array(nothing, values.dtype)).all(axis=-1)
        present.append(np.broadcast_to(~np.asarray(absent), features.shape[:-1]))
        inputs.append(features.reshape(*front, rows * len(columns), len(columns[0])))
    return inputs, np.concatenate(present, axis=-1)


def _by_head(products: Array, rows: int, parts: int) -> Array:
    """``[..., rows x N, parts x w]`` as ``[..., rows, parts, heads, N, d]``."""
    *front, tokens, width = products.shape
    shape = (*front, rows, tokens // rows, parts, HEADS, width // (parts * HEADS))
    return np.moveaxis(products.reshape(shape), -4, -2)
