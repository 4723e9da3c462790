"""The forward pass of attention over entities. Numpy alone, because exported policies hold this file."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
HEADS = 2


class Attention(NamedTuple):
    """The arrays of a forward pass of R rows with N tokens, for the backward pass.

    `inputs` has an array for each type of token. `present` is ``[R, N]``, `tokens`, `normed` and `context` are
    ``[R N, w]``, `qkv` ``[3, R, heads, N, d]`` and `shares` ``[R, heads, N, N]``. `named_tokens` are the results of the
    n entities that actions name ``[R, n, w]``.
    """

    inputs: list[Array]
    present: Array
    tokens: Array
    norm: Any
    normed: Array
    qkv: Array
    shares: Array
    context: Array
    named_tokens: Array

    def with_scores(self, outputs: Array) -> Array:
        """Return the outputs of moves ``[..., moves]``, and the scores of named entities ``[..., n]`` behind them.

        A score is query · token / √w + bias. Sources: "Action Semantics Network" (Wang et al., 2020, arXiv 1907.09827)
        and UPDeT (Hu et al., 2021, arXiv 2101.08001). `outputs` are the last layer's, of moves, the bias, and the query
        ``[w]``. If no entity is named, they stay as they are.
        """
        count, width = self.named_tokens.shape[-2:]
        if not count:
            return outputs
        moves, bias, query = np.split(outputs, [-width - 1, -width], axis=-1)
        scores = (self.named_tokens @ query[..., None])[..., 0] * outputs.dtype.type(width**-0.5)
        return np.concatenate([moves, scores + bias], axis=-1)

    def slopes(self, outputs: Array, grad_output: Array) -> tuple[Array, Array]:
        """Return d loss / d `outputs` of the last layer ``[R, moves + 1 + w]``, and named tokens ``[R, n w]``."""
        rows, count, width = self.named_tokens.shape
        if not count:
            return grad_output, grad_output[:, :0]
        by_move, by_score = np.split(grad_output, [-count], axis=1)
        scaled = by_score * by_score.dtype.type(width**-0.5)
        by_query, by_token = (scaled[:, None] @ self.named_tokens)[:, 0], scaled[..., None] * outputs[:, None, -width:]
        by_output = np.concatenate([by_move, by_score.sum(axis=1, keepdims=True), by_query], axis=1)
        return by_output, by_token.reshape(rows, count * width)


class PlayedAttention:
    """A layer of an exported policy. It has the parameters and, as JSON, the entities of an `EntityAttention`.

    `norm` is the forward pass of the layer norm.
    """

    def __init__(self, entities: dict[str, Any], norm: Callable[[Array], Any], parameters: dict[str, Array]) -> None:
        vars(self).update(parameters)
        self._norm, self._own = norm, entities["own"]
        self._blocks = [
            (block["columns"], block.get("absent", ()), "first_action" in block) for block in entities["blocks"]
        ]

    def forward(self, values: Array) -> tuple[Array, Attention]:
        """See `attend`."""
        return attend(self, self._own, self._blocks, self._norm, values)


def attend(
    layer: Any,
    own_columns: Sequence[int],
    blocks: Sequence[tuple[Any, Any, bool]],
    norm: Callable[[Array], Any],
    values: Array,
) -> tuple[Array, Attention]:
    """Return the outputs ``[..., 2 w]`` of inputs ``[..., in]``.

    `blocks` are columns, the features of the absent, and whether actions name the entities.

    `layer` has the parameters of `EntityAttention`. Parameters of several networks have more axes in front.
    """
    *front, rows, _ = values.shape
    inputs, present = _inputs(own_columns, blocks, values)
    width, count = layer.out.shape[-1], present.shape[-1]
    pairs = zip(inputs, embeddings(layer, [len(columns[0]) for columns, *_ in blocks]), strict=True)
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
    named_tokens = features[..., places_named((len(columns), is_named) for columns, _, is_named in blocks), :]
    return outputs, Attention(inputs, present, joined, cache, normed, qkv, shares, context, named_tokens)


def places_named(blocks: Iterable[tuple[int, bool]]) -> list[int]:
    """Return the places of the named tokens among all tokens. `blocks` give their number."""
    flags = [False, *(is_named for count, is_named in blocks for _ in range(count))]
    return [place for place, is_named in enumerate(flags) if is_named]


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
    own_columns: Sequence[int], blocks: Sequence[tuple[Any, Any, bool]], values: Array
) -> tuple[list[Array], NDArray[np.bool_]]:
    """The inputs ``[..., rows x count, features]`` of each type, and the present tokens ``[..., rows, N]``."""
    *front, rows, _ = values.shape
    inputs, present = [values[..., list(own_columns)]], [np.ones((*front, rows, 1), np.bool_)]
    for columns, nothing, _ in blocks:
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
