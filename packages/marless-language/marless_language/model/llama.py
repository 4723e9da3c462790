"""The forward pass of the Llama family (Touvron et al., 2023), layer by layer.

It is written out here instead of using the package transformers. Layers below the adapters are computed once and kept,
and the last layer only at the positions of the reply. Also, every operation must be known, so that a row has the same
result in any batch.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from marless_language.adapter_layout import projections
from marless_language.base_header import LlamaShape
from marless_language.errors import UnusableBase

Weights = Mapping[str, Tensor]
# Numbers of single precision in a line of memory.
_LINE = 16
NORMS = BEFORE_ATTENTION, BEFORE_MLP = "input_layernorm", "post_attention_layernorm"
EMBEDDING, NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"


def tensor_shapes(shape: LlamaShape) -> dict[str, tuple[int, ...]]:
    """The tensors of a model, by their names in Hugging Face's checkpoints."""
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (shape.vocabulary, shape.hidden), NORM: (shape.hidden,)}
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        shapes |= {f"{prefix}.{name}.weight": sizes for name, sizes in projections(shape).items()}
        shapes |= {f"{prefix}.{name}.weight": (shape.hidden,) for name in NORMS}
    return shapes if shape.tied else shapes | {HEAD: shapes[EMBEDDING]}


def require_tensors(shape: LlamaShape, sizes: Mapping[str, tuple[int, ...]], name: str) -> None:
    """Raises `UnusableBase`, with the `name` of their file, unless these are exactly the tensors of such a model.

    Names are made for as many layers only as the file can hold.
    """
    if shape.layers > len(sizes):
        raise UnusableBase(f"{name}: {len(sizes)} tensors are no {shape.layers} layers; it is incomplete or damaged")
    needed = tensor_shapes(shape)
    for key in sorted(needed.keys() | sizes.keys()):
        ours, theirs = needed.get(key), sizes.get(key)
        if ours is None or theirs is None:
            what = "is not there; it is incomplete" if theirs is None else f"of the sizes {[*theirs]} would not count"
            raise UnusableBase(f"{name}: {key} {what}, or of another architecture than that of a plain Llama model")
        if ours != theirs:
            raise UnusableBase(
                f"{name}: {key} has the sizes {[*theirs]}, and a model of its shape has the sizes {[*ours]}; it is"
                " damaged, or of another architecture"
            )


class Past(NamedTuple):
    """Keys and values of a layer at earlier positions, ``[rows, kv_heads, positions, head_size]``."""

    keys: Tensor
    values: Tensor

    def of_rows(self, rows: int) -> "Past":
        """That of one sequence for so many, which begin with it."""
        return Past(self.keys.expand(rows, -1, -1, -1), self.values.expand(rows, -1, -1, -1))


class Layer(NamedTuple):
    """One layer of a model: frozen weights, and the adapter's by peft's names where it has one."""

    shape: LlamaShape
    weights: Weights
    adapter: Weights
    number: int

    def norm(self, name: str, inputs: Tensor) -> Tensor:
        return rms_norm(inputs, self.weights[f"model.layers.{self.number}.{name}.weight"], self.shape.rms_epsilon)

    def project(self, name: str, inputs: Tensor) -> Tensor:
        """``inputs (W + B A)ᵀ``."""
        full = f"model.layers.{self.number}.{name}"
        outputs = product(inputs, self.weights[f"{full}.weight"])
        into = self.adapter.get(f"{full}.lora_A.weight")
        if into is None:
            return outputs
        return outputs + product(product(inputs, into), self.adapter[f"{full}.lora_B.weight"])

    def heads(self, name: str, inputs: Tensor, count: int) -> Tensor:
        """A projection ``[rows, count, positions, head_size]``."""
        outputs = self.project(name, inputs)
        return outputs.view(*inputs.shape[:2], count, self.shape.head_size).transpose(1, 2)


def forward(
    layer: Layer, inputs: Tensor, rotation: Tensor, past: Past | None = None, last: int | None = None
) -> tuple[Tensor, Past]:
    """Return the layer's outputs ``[rows, positions, hidden]`` at the `last` positions (None: at all), and the data for
    later positions.

    `rotation` comes from `rotations` at the positions of the inputs. The inputs follow the positions of `past`.
    """
    keep = inputs.shape[1] if last is None else last
    normed = layer.norm(BEFORE_ATTENTION, inputs)
    keys = rotate(layer.heads("self_attn.k_proj", normed, layer.shape.kv_heads), rotation)
    values = layer.heads("self_attn.v_proj", normed, layer.shape.kv_heads)
    if past is not None:
        keys, values = torch.cat((past.keys, keys), 2), torch.cat((past.values, values), 2)
    queries = layer.heads("self_attn.q_proj", normed[:, -keep:], layer.shape.heads)
    attended = layer.project("self_attn.o_proj", attention(rotate(queries, rotation[:, -keep:]), keys, values))
    outputs = inputs[:, -keep:] + attended
    normed = layer.norm(BEFORE_MLP, outputs)
    gate = functional.silu(layer.project("mlp.gate_proj", normed))
    return outputs + layer.project("mlp.down_proj", gate * layer.project("mlp.up_proj", normed)), Past(keys, values)


def attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention ``[rows, Q, heads * head_size]`` of the last Q positions over all K. A group of heads shares
    keys and values."""
    rows, heads, ours, size = queries.shape
    shared, positions = keys.shape[1:3]
    scores = _products(queries.reshape(rows, shared, -1, size), keys) * size**-0.5
    scores = scores.view(rows, shared, -1, ours, positions)
    if ours > 1:
        ahead = torch.ones(ours, positions, dtype=torch.bool).triu(positions - ours + 1)
        scores = scores.masked_fill(ahead, -torch.inf)
    attended: Tensor = scores.softmax(-1).view(rows, shared, -1, positions) @ values
    return attended.view(rows, heads, ours, size).transpose(1, 2).reshape(rows, ours, heads * size)


def _products(queries: Tensor, keys: Tensor) -> Tensor:
    """``queries keysᵀ`` of every row and head.

    If a row's results began within a line of memory, their last digits would depend on its place in the batch. One
    array of keys avoids this.
    """
    keys = keys.contiguous() if keys.shape[2] % _LINE else keys
    return queries @ keys.transpose(2, 3)


def product(inputs: Tensor, matrix: Tensor) -> Tensor:
    """``inputs matrixᵀ``, always as one product of two matrices: torch itself takes another kernel, which rounds
    otherwise, where it has to compute a gradient."""
    flat = functional.linear(inputs.reshape(-1, inputs.shape[-1]), matrix)
    return flat.view(*inputs.shape[:-1], matrix.shape[0])


def rms_norm(inputs: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """``inputs`` over their root mean square, times `weight`."""
    scale: Tensor = torch.rsqrt(inputs.square().mean(-1, keepdim=True) + epsilon)
    return weight * (inputs * scale)


def rotations(shape: LlamaShape, positions: int) -> Tensor:
    """Cosines and sines ``[2, positions, head_size]`` of the angles that positions turn queries and keys by."""
    speed = 1 / shape.rope_theta ** (torch.arange(0, shape.head_size, 2, dtype=torch.float32) / shape.head_size)
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), speed).repeat(1, 2)
    return torch.stack((angles.cos(), angles.sin()))


def rotate(inputs: Tensor, rotation: Tensor) -> Tensor:
    """Su et al., "RoFormer", 2021. The halves of a head are the two coordinates, like in Hugging Face's checkpoints."""
    first, second = inputs.chunk(2, -1)
    turned: Tensor = inputs * rotation[0] + torch.cat((-second, first), -1) * rotation[1]
    return turned
