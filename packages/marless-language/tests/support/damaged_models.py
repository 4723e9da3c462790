"""Damage to the files of small models, and another way to read such files than the program's."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from model_files import write_folder, write_gguf
from safetensors.numpy import load_file, save_file
from small_bases import SHAPE, random_body

from marless_language.base_header import LlamaShape
from marless_language.model.peft_format import write_base

ALPHABET = [*"abcdefghi", "ab", "Ġ"]
Weights = dict[str, np.ndarray]


def tokenizer_document() -> dict[str, Any]:
    """Pairs of bytes with as many tokens as the random base, a mark and settings that were left on."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "added_tokens": [
            {
                "id": 8,
                "content": "i",
                "special": True,
                **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
            }
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": level,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": 0.5,
            "vocab": {token: number for number, token in enumerate(ALPHABET)},
            "merges": [["a", "b"]],
        },
    }


def whole_folder(path: Path) -> Path:
    folder = write_folder(path)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_document()))
    return folder


def flip(path: Path, random: Random, first: int = 0, last: int | None = None) -> None:
    """One to three bits of a file, or of a part of it."""
    body = bytearray(path.read_bytes())
    for _ in range(random.randint(1, 3)):
        body[random.randrange(first, last or len(body))] ^= 1 << random.randrange(8)
    path.write_bytes(body)


def cut(path: Path, random: Random) -> None:
    body = path.read_bytes()
    path.write_bytes(body[: random.randrange(len(body))])


def weights_of_folder(folder: Path, random: Random) -> None:
    path = folder / "model.safetensors"
    length = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    random.choice([flip, cut, lambda p, r: flip(p, r, last=length), lambda p, r: flip(p, r, first=length)])(
        path, random
    )


def tensors_of_folder(folder: Path, random: Random) -> None:
    """A tensor goes, comes, gets another name, type or form."""
    path = folder / "model.safetensors"
    arrays = load_file(path)
    name = random.choice(sorted(arrays))
    array = arrays.pop(name)
    arrays |= random.choice(
        [
            {},
            {f"{name}_scale": np.ones(1, np.float32), name: array},
            {name.replace("weight", "bias"): array.ravel()[:2].copy(), name: array},
            {name[:-1]: array},
            {name: array.astype(np.float16)},
            {name: array.astype(np.float64)},
            {name: array.astype(np.int8)},
            {name: array.T.copy() if array.ndim > 1 else array[:-1].copy()},
            {"lm_head.weight": arrays.get("model.embed_tokens.weight", array), name: array},
            {"model.layers.7.mlp.up_proj.weight": array, name: array},
        ]
    )
    save_file(arrays, path)


SETTINGS: dict[str, list[Any]] = {
    "rope_theta": [10.0, 1e6, 0, -1, None, "ten"],
    "rms_norm_eps": [1e-6, 0.1, -1, None],
    "rope_scaling": [None, {"type": "default"}, {"type": "linear", "factor": 2.0}, {"rope_type": "llama3"}, []],
    "rope_parameters": [{"rope_type": "default", "rope_theta": 7.0}, {"rope_theta": 100.0}],
    "num_attention_heads": [1, 2, 3, 8, 0, 10**9],
    "num_key_value_heads": [1, 4, 3, None, 0],
    "head_dim": [3, 12, None, 6],
    "num_hidden_layers": [1, 2, 4, 10**9, -1],
    "hidden_size": [6, 24],
    "vocab_size": [10, 12, 10**12],
    "max_position_embeddings": [1, 10**15, 0],
    "tie_word_embeddings": [False, None],
    "attention_bias": [True, False, None],
    "hidden_act": ["gelu", "swish", None],
    "sliding_window": [4, None],
    "partial_rotary_factor": [0.5, 1.0],
    "quantization_config": [{"bits": 8}, None],
    "attn_logit_softcapping": [30.0, None],
    "num_local_experts": [2, 0],
    "model_type": ["mistral", "qwen2", None],
    "torch_dtype": ["float16"],
    "something_new": [1, None],
}


def settings_of_folder(folder: Path, random: Random) -> None:
    path = folder / "config.json"
    if random.random() < 0.5:
        return random.choice([flip, cut])(path, random)
    settings = json.loads(path.read_text())
    for name in random.sample(sorted(SETTINGS), random.randint(1, 2)):
        settings[name] = random.choice(SETTINGS[name])
    if random.random() < 0.2:
        del settings[random.choice(sorted(settings))]
    path.write_text(json.dumps(settings))
    return None


def tokenizer_of_folder(folder: Path, random: Random) -> None:
    path = folder / "tokenizer.json"
    if random.random() < 0.5:
        return random.choice([flip, flip, cut])(path, random)
    document = tokenizer_document()
    part = random.choice([document, document["model"], document["added_tokens"][0], document["model"]["vocab"]])
    key = random.choice(sorted(part))
    value = random.choice([None, 0, 3, 12, True, "a", [], {}, {"type": "Lowercase"}, {"type": "StripAccents"}])
    random.choice([lambda: part.pop(key), lambda: part.update({key: value}), lambda: part.update({f"{key}_": value})])()
    path.write_text(json.dumps(document))
    return None


DAMAGE: dict[str, Callable[[Path, Random], None]] = {
    "weights": weights_of_folder,
    "tensors": tensors_of_folder,
    "settings": settings_of_folder,
    "tokenizer": tokenizer_of_folder,
}


def damaged_folder(path: Path, kind: str, random: Random) -> Path:
    folder = whole_folder(path)
    DAMAGE[kind](folder, random)
    return folder


def damaged_gguf(path: Path, random: Random) -> Path:
    write_gguf(path, fields={"llama.rope.dimension_count": SHAPE.head_size})
    start = path.read_bytes().index(b"token_embd")  # behind the fields
    random.choice([flip, cut, lambda p, r: flip(p, r, last=start), lambda p, r: flip(p, r, start, start + 1500)])(
        path, random
    )
    return path


def damaged_base(path: Path, random: Random) -> Path:
    path.write_bytes(random_body())
    length = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    random.choice([flip, cut, lambda p, r: flip(p, r, last=length)])(path, random)
    return path


def arrays_in(path: Path) -> tuple[Weights, dict[str, str]]:
    """The arrays and metadata of a safetensors file, by the format's own words."""
    body = path.read_bytes()
    start = 8 + int.from_bytes(body[:8], "little")
    entries, arrays = json.loads(body[8:start]), Weights()
    metadata = entries.pop("__metadata__", None) or {}
    kinds = {"F32": np.float32, "F16": np.float16, "F64": np.float64}
    for name, entry in entries.items():
        first, last = entry["data_offsets"]
        array = np.frombuffer(body[start + first : start + last], kinds[entry["dtype"]])
        arrays[name] = array.reshape(entry["shape"]).astype(np.float32)
    return arrays, metadata


def model_in_folder(folder: Path) -> tuple[LlamaShape, Weights]:
    """Return the model of a folder, with the defaults of transformers, and for tied heads only the embedding."""
    said, (arrays, _) = json.loads((folder / "config.json").read_text()), arrays_in(folder / "model.safetensors")
    heads, tied = said["num_attention_heads"], bool(said.get("tie_word_embeddings", False))
    shared, size = said.get("num_key_value_heads"), said.get("head_dim")
    rope = said.get("rope_parameters") or said.get("rope_scaling") or {}
    shape = LlamaShape(
        layers=said["num_hidden_layers"],
        hidden=said["hidden_size"],
        heads=heads,
        kv_heads=heads if shared is None else shared,
        head_size=said["hidden_size"] // heads if size is None else size,
        intermediate=said["intermediate_size"],
        vocabulary=said["vocab_size"],
        context=said.get("max_position_embeddings", 2048),
        rms_epsilon=said.get("rms_norm_eps", 1e-6),
        rope_theta=rope.get("rope_theta", said.get("rope_theta", 10_000.0)),
        tied=tied,
    )
    return shape, {name: array for name, array in arrays.items() if not (tied and name == "lm_head.weight")}


def model_in_gguf(path: Path) -> tuple[LlamaShape, Weights]:
    """Return the model of a GGUF file by the package gguf, under the names of Hugging Face."""
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(path)
    said = {name: field.contents() for name, field in reader.fields.items()}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, SHAPE.layers)
    ours = {names.get_name(name, try_suffixes=(".weight",)): name for name in arrays_of_base()}
    arrays = Weights()
    for tensor in reader.tensors:
        array = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name = ours[tensor.name]
        if "q_proj" in name or "k_proj" in name:
            half, rows = SHAPE.head_size // 2, np.arange(len(array))
            head, place = rows // SHAPE.head_size, rows % SHAPE.head_size
            array = array[head * SHAPE.head_size + place % half * 2 + place // half]
        arrays[name] = array
    shape = LlamaShape(
        layers=said["llama.block_count"],
        hidden=said["llama.embedding_length"],
        heads=said["llama.attention.head_count"],
        kv_heads=said["llama.attention.head_count_kv"],
        head_size=said["llama.attention.key_length"],
        intermediate=said["llama.feed_forward_length"],
        vocabulary=len(arrays["model.embed_tokens.weight"]),
        context=said["llama.context_length"],
        rms_epsilon=float(np.float32(said["llama.attention.layer_norm_rms_epsilon"])),
        rope_theta=said["llama.rope.freq_base"],
    )
    return shape, arrays


def model_in_base(path: Path) -> tuple[LlamaShape, Weights]:
    arrays, metadata = arrays_in(path)
    return LlamaShape(**json.loads(metadata["marless"])["shape"]), arrays


def arrays_of_base() -> Weights:
    import tempfile

    from small_bases import random_base

    with tempfile.TemporaryDirectory() as folder:
        write_base(random_base(), Path(folder))
        return load_file(Path(folder) / "model.safetensors")
