"""Small language models with random weights, and the same mathematics written out another way, in double precision."""

import tempfile
from pathlib import Path

import numpy as np
import torch

from marless.functions.randomness import generator
from marless_language.adapter_layout import AdapterLayout
from marless_language.base_header import BaseHeader, LlamaShape
from marless_language.model.base_model import Base, encode, open_base
from marless_language.model.llama import tensor_shapes
from marless_language.model.text_tokenizer import text_of
from marless_language.symbols import Symbols

SHAPE = LlamaShape(
    layers=3, hidden=12, heads=4, kv_heads=2, head_size=6, intermediate=20, vocabulary=11, context=32, rope_theta=100.0
)
SYMBOLS = Symbols([*"abcdefghij", "."])


def random_body(shape: LlamaShape = SHAPE, seed: int = 0) -> bytes:
    """The object of a model with clearly different outputs from token to token."""
    rng, tensors = generator(seed, "base"), {}
    for name, sizes in sorted(tensor_shapes(shape).items()):
        spread = 1.0 if len(sizes) == 1 else sizes[-1] ** -0.5
        tensors[name] = (rng.standard_normal(sizes) * spread + (len(sizes) == 1)).astype(np.float32)
    return encode(BaseHeader(shape, text_of(SYMBOLS)), tensors, "a random base")


def base_of(body: bytes) -> Base:
    """The base with these bytes. They stay mapped when the file is gone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "base"
        path.write_bytes(body)
        return open_base(path)


def random_base(shape: LlamaShape = SHAPE, seed: int = 0) -> Base:
    return base_of(random_body(shape, seed))


def random_adapter(layout: AdapterLayout, seed: int = 0) -> np.ndarray:
    """One that changes outputs: B is not zero."""
    return (0.3 * generator(seed, "adapter").standard_normal(layout.size)).astype(np.float32)


def merged(base: Base, layout: AdapterLayout, adapter: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The model's weights with ``W + B A`` in place of W, double."""
    weights = {name: tensor.double() for name, tensor in base.weights.items()}
    for entry in layout.entries:
        if entry.name.endswith("lora_A.weight"):
            stem = entry.name.removesuffix("lora_A.weight")
            product = adapter[f"{stem}lora_B.weight"] @ adapter[entry.name]
            weights[f"{stem}weight"] = weights[f"{stem}weight"] + product
    return weights


def plain_logits(shape: LlamaShape, weights: dict[str, torch.Tensor], tokens: np.ndarray) -> torch.Tensor:
    """``[T, vocabulary]`` of one sequence ``[T]``, head by head and with complex numbers."""
    hidden = weights["model.embed_tokens.weight"][torch.from_numpy(tokens.astype(np.int64))]
    for number in range(shape.layers):
        layer = {
            name.removeprefix(f"model.layers.{number}.").removesuffix(".weight"): tensor
            for name, tensor in weights.items()
            if name.startswith(f"model.layers.{number}.")
        }
        normed = _normed(shape, hidden, layer["input_layernorm"])
        hidden = hidden + _attention(shape, layer, normed) @ layer["self_attn.o_proj"].T
        normed = _normed(shape, hidden, layer["post_attention_layernorm"])
        gate = normed @ layer["mlp.gate_proj"].T
        inner = gate / (1 + (-gate).exp()) * (normed @ layer["mlp.up_proj"].T)
        hidden = hidden + inner @ layer["mlp.down_proj"].T
    head = weights["model.embed_tokens.weight" if shape.tied else "lm_head.weight"]
    return _normed(shape, hidden, weights["model.norm.weight"]) @ head.T


def _normed(shape: LlamaShape, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return hidden / ((hidden**2).mean(1, keepdim=True) + shape.rms_epsilon) ** 0.5 * weight


def _attention(shape: LlamaShape, layer: dict[str, torch.Tensor], normed: torch.Tensor) -> torch.Tensor:
    size, shared, outputs = shape.head_size, shape.heads // shape.kv_heads, []
    ahead = torch.ones(len(normed), len(normed)).triu(1).bool()
    for head in range(shape.heads):
        part = slice(head * size, (head + 1) * size)
        theirs = slice(head // shared * size, (head // shared + 1) * size)
        queries = _turned(shape, normed @ layer["self_attn.q_proj"][part].T)
        keys = _turned(shape, normed @ layer["self_attn.k_proj"][theirs].T)
        scores = (queries @ keys.conj().T).real / size**0.5
        outputs.append(scores.masked_fill(ahead, -torch.inf).softmax(1) @ normed @ layer["self_attn.v_proj"][theirs].T)
    return torch.cat(outputs, 1)


def _turned(shape: LlamaShape, vectors: torch.Tensor) -> torch.Tensor:
    """Coordinates i and i + half are a complex number, which turns by ``position / theta^(2 i / size)``."""
    half = shape.head_size // 2
    angles = [[position / shape.rope_theta ** (i / half) for i in range(half)] for position in range(len(vectors))]
    turns = torch.polar(torch.ones(len(vectors), half).double(), torch.tensor(angles).double())
    return torch.complex(vectors[:, :half], vectors[:, half:]) * turns
