"""The layer of `algorithm.network=attention`: self-attention over the entities that an observation describes.

It follows Vaswani et al., "Attention Is All You Need", 2017. It has no positions, and the norm first (Xiong et al., "On
Layer Normalization in the Transformer Architecture", 2020). It is in numpy here, in torch in
`marless.functions.nn.torch_layers`, in C in functions/native/entities.h, and in ONNX in the exports.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.encoding import from_json, to_json
from marless.functions.environments.entities.description import Entities
from marless.functions.nn.entities.forward_pass import Attention, attend, embeddings, places_named, rows_of
from marless.functions.nn.layers import Array, Layer, LayerNorm, Orthogonal, Shape

# The name of the tensor with the described entities in storage.
ENTITIES = "entities"
# Widths of tokens are multiples of this, so that each head has whole vectors of the kernels.
WIDTH_STEP = 16


@dataclass(frozen=True)
class EntityAttention(Layer):
    """Attention between a token of the agent itself and one of each entity.

    `agent` ``[own columns, w]`` and `agent_bias` ``[w]`` make the agent's token. `blocks` ``[features, w]``, the rows
    of all blocks, and `block_bias` ``[blocks, w]`` make the tokens of entities. Both end with a ReLU. A layer norm with
    `gain` and `shift` ``[w]`` comes before queries, keys and values (`qkv` ``[w, 3 w]``). The heads' results, by `out`
    ``[w, w]`` and `out_bias` ``[w]``, are added to the tokens. Outputs are the agent's token and the mean of all.
    Nobody attends to an absent entity, and the mean leaves it out. If actions name entities, the network's last layer
    makes a query for the results of their tokens (`Attention.with_scores`). These are the keys: a further matrix for
    keys adds no function, because its product with the query's matrix is a matrix for queries.
    """

    kind: ClassVar[str] = "entity_attention"
    names: ClassVar[tuple[str, ...]] = tuple(
        f"attention_{name}"
        for name in ("agent", "agent_bias", "blocks", "block_bias", "gain", "shift", "qkv", "out", "out_bias")
    )
    has_number: ClassVar[bool] = False
    entry: ClassVar[tuple[str, ...]] = ("agent", "agent_bias")
    entities: ClassVar[Entities] = Entities((), ())

    agent: Array
    agent_bias: Array
    blocks: Array
    block_bias: Array
    gain: Array
    shift: Array
    qkv: Array
    out: Array
    out_bias: Array

    @classmethod
    def shapes(cls, inputs: int, outputs: int) -> tuple[Shape, ...]:
        """Return the shapes of the parameters for `outputs` = 2 w."""
        width, blocks = outputs // 2, cls.entities.blocks
        features = sum(block.features for block in blocks)
        embedding = (len(cls.entities.own), width), (width,), (features, width), (len(blocks), width)
        return *embedding, (width,), (width,), (width, 3 * width), (width, width), (width,)

    @property
    def inputs(self) -> int:
        """The number of columns that the description has."""
        return self.entities.size

    def width(self, inputs: int) -> int:
        """Return the number of outputs."""
        return 2 * int(self.out.shape[-1])

    def initialise(self, orthogonal: Orthogonal, gain: float) -> None:
        """Queries, keys and values are one matrix each of gain 1."""
        self.agent[...] = gain * orthogonal(*self.agent.shape)
        for part in self._parts:
            self.blocks[part] = gain * orthogonal(*self.blocks[part].shape)
        self.gain[...] = 1
        width = len(self.out)
        for start in range(0, 3 * width, width):
            self.qkv[:, start : start + width] = orthogonal(width, width)
        self.out[...] = orthogonal(width, width)

    @property
    def _parts(self) -> list[slice]:
        return rows_of([block.features for block in self.entities.blocks])

    @property
    def _norm(self) -> LayerNorm:
        return LayerNorm(self.gain, self.shift)

    def forward(self, values: Array, out: Array | None = None) -> tuple[Array, Attention]:
        """``[..., in]`` to ``[..., 2 w]``. Parameters of several networks have the axes in front of their rows."""
        blocks = [(block.columns, block.absent, block.first_action is not None) for block in self.entities.blocks]
        return attend(self, self.entities.own, blocks, self._norm.forward, values)

    @classmethod
    def places(cls) -> list[int]:
        """Return the places of the named tokens among all tokens."""
        return places_named((len(block.columns), block.first_action is not None) for block in cls.entities.blocks)

    @classmethod
    def surplus(cls, width: int) -> int:
        """See `Layer.surplus`: a query and a bias in place of the scores."""
        return 1 + width // 2 - len(places) if (places := cls.places()) else 0

    def backward(
        self, cache: Attention, grad_output: Array, gradient: "EntityAttention | None", to_inputs: bool = True
    ) -> Array:
        """Return d loss / d inputs ``[rows, in]`` for the parameters of one network, see `Layer.backward`.

        `grad_output` has the columns of the outputs, and then the columns of named tokens ``[rows, n w]``.
        """
        rows, count = cache.present.shape
        width, heads = len(self.out), cache.shares.shape[1]
        shares = cache.present / cache.present.sum(axis=-1, keepdims=True)
        by_own, by_mean, by_named = np.split(grad_output, [width, 2 * width], axis=1)
        slopes = shares[..., None].astype(grad_output.dtype) * by_mean[:, None]
        slopes[:, 0] += by_own
        slopes[:, self.places()] += by_named.reshape(rows, by_named.shape[1] // width, width)
        slopes = slopes.reshape(-1, width)
        query, key, value = np.moveaxis(cache.qkv, -4, 0)
        by_context = np.moveaxis((slopes @ self.out.T).reshape(rows, count, heads, -1), 1, 2)
        by_share = by_context @ value.swapaxes(-1, -2)
        by_score = cache.shares * (by_share - (by_share * cache.shares).sum(axis=-1, keepdims=True))
        by_score *= by_score.dtype.type(query.shape[-1] ** -0.5)
        parts = by_score @ key, by_score.swapaxes(-1, -2) @ query, cache.shares.swapaxes(-1, -2) @ by_context
        by_qkv = np.moveaxis(np.stack(parts), (0, 3), (2, 1)).reshape(-1, 3 * width)
        if gradient is not None:
            np.matmul(cache.context.T, slopes, out=gradient.out)
            np.add.reduce(slopes, axis=0, out=gradient.out_bias)
            np.matmul(cache.normed.T, by_qkv, out=gradient.qkv)
        norm = LayerNorm(gradient.gain, gradient.shift) if gradient is not None else None
        slopes = slopes + self._norm.backward(cache.norm, by_qkv @ self.qkv.T, norm)
        slopes *= cache.tokens > 0
        return self._embedding_backward(cache, slopes.reshape(rows, count, width), gradient)

    def _embedding_backward(self, cache: Attention, slopes: Array, gradient: "EntityAttention | None") -> Array:
        rows = len(slopes)
        by_input = np.zeros((rows, self.inputs), slopes.dtype)
        by_input[:, list(self.entities.own)] = slopes[:, 0] @ self.agent.T
        if gradient is not None:
            np.matmul(cache.inputs[0].T, slopes[:, 0], out=gradient.agent)
            np.add.reduce(slopes[:, 0], axis=0, out=gradient.agent_bias)
        first = 1
        for index, (part, block) in enumerate(zip(self._parts, self.entities.blocks, strict=True)):
            of_block = slopes[:, first : first + len(block.columns)].reshape(-1, slopes.shape[-1])
            first += len(block.columns)
            by_input[:, np.ravel(block.columns)] = (of_block @ self.blocks[part].T).reshape(rows, -1)
            if gradient is not None:
                np.matmul(cache.inputs[1 + index].T, of_block, out=gradient.blocks[part])
                np.add.reduce(of_block, axis=0, out=gradient.block_bias[index])
        return by_input

    @property
    def embeddings(self) -> list[tuple[Array, Array]]:
        """See `forward_pass.embeddings`."""
        return embeddings(self, [block.features for block in self.entities.blocks])


@cache
def attention_over(entities: Entities) -> type[EntityAttention]:
    """The layer for observations with these entities."""
    return type("EntityAttention", (EntityAttention,), {"entities": entities})


def width_of_tokens(hidden: int) -> int:
    """The width of tokens for the first width of `algorithm.hidden`."""
    return -(-hidden // WIDTH_STEP) * WIDTH_STEP


def encode(entities: Entities) -> NDArray[np.uint8]:
    """The description as a tensor."""
    return np.frombuffer(to_json(entities), np.uint8)


def decode(tensor: NDArray[Any]) -> Entities:
    """Return the description from `encode`. Raises `ValueError` for anything else."""
    entities = from_json(np.asarray(tensor, np.uint8).tobytes(), Entities)
    if fault := entities.fault(entities.size):
        raise ValueError(fault)
    return entities


def with_rest(entities: Entities, inputs: int) -> Entities:
    """Return the description of so many inputs. The inputs behind the observation are the agent's own."""
    return msgspec.structs.replace(entities, own=(*entities.own, *range(entities.size, inputs)))
