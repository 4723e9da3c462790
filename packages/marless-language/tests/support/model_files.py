"""The random base in files of other programs: a folder of Hugging Face, and GGUF as llama.cpp's converter writes it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bases import SHAPE, random_base

from marless_language.model.peft_format import write_base

TOKENS = (*"ab1234", "ab", "Ġ", "<end>", "x", "y")
FIELDS = {
    "llama.block_count": SHAPE.layers,
    "llama.context_length": SHAPE.context,
    "llama.embedding_length": SHAPE.hidden,
    "llama.feed_forward_length": SHAPE.intermediate,
    "llama.attention.head_count": SHAPE.heads,
    "llama.attention.head_count_kv": SHAPE.kv_heads,
    "llama.attention.key_length": SHAPE.head_size,
    "llama.attention.layer_norm_rms_epsilon": SHAPE.rms_epsilon,
    "llama.rope.freq_base": SHAPE.rope_theta,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": [*TOKENS],
    "tokenizer.ggml.token_type": [1] * 8 + [3, 1, 1],
    "tokenizer.ggml.merges": ["a b"],
}


def write_folder(path: Path) -> Path:
    """A folder as Hugging Face lays it out, without a tokenizer."""
    path.mkdir(exist_ok=True)
    write_base(random_base(), path)
    return path


def change_config(folder: Path, **settings: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def gguf_tensors() -> dict[str, np.ndarray]:
    """By llama.cpp's names. The coordinates of a head alternate."""
    gguf = pytest.importorskip("gguf")
    names, tensors = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, SHAPE.layers), {}
    for name, tensor in random_base().weights.items():
        array, half = tensor.numpy(), SHAPE.head_size // 2
        if "q_proj" in name or "k_proj" in name:
            heads = SHAPE.heads if "q_proj" in name else SHAPE.kv_heads
            order = [
                h * SHAPE.head_size + i + part * half for h in range(heads) for i in range(half) for part in (0, 1)
            ]
            array = array[order]
        tensors[names.get_name(name, try_suffixes=(".weight",))] = np.ascontiguousarray(array)
    return tensors


def write_gguf(
    path: Path,
    architecture: str = "llama",
    fields: Mapping[str, Any] | None = None,
    tensors: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """A GGUF file with these fields and tensors added to the random base or replacing its own. None takes one out."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, architecture)
    kinds = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, bool: writer.add_bool}
    for name, value in {**FIELDS, **(fields or {})}.items():
        if value is not None:
            kinds.get(type(value), writer.add_array)(name, value)
    for name, array in {**gguf_tensors(), **(tensors or {})}.items():
        if array is not None:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
