"""Reads a model of the Llama family from a local folder in the layout of Hugging Face. It reads the files that Hugging
Face's packages read, and every tensor in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from marless.functions.encoding import Undecodable, from_json
from marless_language.base_header import LlamaShape, require_possible
from marless_language.errors import UnusableBase
from marless_language.model.hugging_face_config import CONFIG, shape_of
from marless_language.model.llama import EMBEDDING, HEAD, require_tensors
from marless_language.model.tokenizer_document import ids_of

TOKENIZER = "tokenizer.json"
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_ADAPTER = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
# Others are numbers to be multiplied by a scale that stands elsewhere.
_KINDS = ("F32", "F16", "BF16", "F64")
# How fast positions turn, as older checkpoints hold it.
_SPEEDS = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")

Tensors = dict[str, NDArray[np.float32]]


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


class _AddedToken(msgspec.Struct):
    content: str


class _TokenizerConfig(msgspec.Struct):
    added_tokens_decoder: dict[int, _AddedToken] = {}


def read_folder(folder: Path) -> tuple[LlamaShape, Tensors, str]:
    """The shape, the tensors by name and the tokenizer ('' for none) of the model. Raises `UnusableBase`, `OSError`."""
    shape = shape_of(folder)
    require_possible(shape, str(folder / CONFIG))
    tensors = Tensors()
    files = _files(folder)
    for path, names in files.items():
        try:
            with safe_open(path, "pt") as file:
                tensors |= _tensors(file, path, shape, names)
        except SafetensorError as error:
            raise UnusableBase(f"{path} is cut short or damaged ({error}); copy it anew") from error
    where = str(next(iter(files))) if len(files) == 1 else str(folder)
    head = tensors.pop(HEAD) if shape.tied and HEAD in tensors else None
    require_tensors(shape, {name: array.shape for name, array in tensors.items()}, where)
    if head is not None and not np.array_equal(head, tensors[EMBEDDING]):
        raise UnusableBase(
            f"{where}: {HEAD} differs from {EMBEDDING}, and config.json says tie_word_embeddings; correct one of them"
        )
    return shape, tensors, _tokenizer(folder)


def _tokenizer(folder: Path) -> str:
    path = folder / TOKENIZER
    if not path.is_file():
        return ""
    try:
        text, others = path.read_text(encoding="utf-8"), [*_tokens_elsewhere(folder)]
        ids = ids_of(from_json(text, dict[str, Any])) if others else {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnusableBase(f"{path}, or a file of tokens beside it, cannot be read: {error}; copy them anew") from error
    for file, token, number in others:
        if ids.get(token) != number:
            raise UnusableBase(f"{file}: {token!r:.60} is token {number}, and {TOKENIZER} has it otherwise; mend one")
    return text


def _tokens_elsewhere(folder: Path) -> Iterator[tuple[Path, str, int]]:
    """Tokens in files next to the tokenizer. Hugging Face's packages add them to it."""
    added, config = folder / "added_tokens.json", folder / "tokenizer_config.json"
    if added.is_file():
        for token, number in from_json(added.read_bytes(), dict[str, int]).items():
            yield added, token, number
    if config.is_file():
        for number, entry in from_json(config.read_bytes(), _TokenizerConfig).added_tokens_decoder.items():
            yield config, entry.content, number


def _files(folder: Path) -> dict[Path, frozenset[str] | None]:
    """The files with the weights, and the tensors of each as the index has them. None without an index."""
    if adapter := next((name for name in _ADAPTER if (folder / name).exists()), None):
        raise UnusableBase(
            f"{folder} holds {adapter}, an adapter: merge it into its model with peft, or take its files out"
        )
    present = sorted(folder.glob("*.safetensors"))
    if not present:
        raise UnusableBase(f"{folder} has no .safetensors file; files of other formats can run code, and are not read")
    single, index = folder / _WEIGHTS, folder / _INDEX
    if index.is_file():
        return _indexed(index, single)
    if len(present) > 1 and single not in present:
        raise UnusableBase(
            f"{folder} has {len(present)} files of weights, {present[0].name} to {present[-1].name}, and no {_INDEX},"
            " which says what is read of them; copy it from where the model is from"
        )
    return {single if single in present else present[0]: None}


def _indexed(index: Path, single: Path) -> dict[Path, frozenset[str] | None]:
    try:
        places = from_json(index.read_bytes(), _Index).weight_map
    except Undecodable as error:
        raise UnusableBase(f"{index}: {error}") from error
    names = sorted({*places.values()})
    if single.is_file() and single.name not in names:
        raise UnusableBase(f"{index} does not name {single.name}, which is there too; take one of them out")
    for name in names:
        if Path(name).name != name or not (index.parent / name).is_file():
            raise UnusableBase(f"{index} names {name}, which is no file beside it; copy it there")
    return {
        index.parent / name: frozenset(tensor for tensor, place in places.items() if place == name) for name in names
    }


def _tensors(file: Any, path: Path, shape: LlamaShape, names: frozenset[str] | None) -> Iterator[tuple[str, Any]]:
    """The tensors of a file. Each one is looked at before it is read."""
    tensor_names = frozenset(file.keys())
    if names is not None and (other := sorted(tensor_names ^ names)):
        place = "is not in the index" if other[0] in tensor_names else "is not there, though the index names it"
        raise UnusableBase(f"{path}: {other[0]} {place}; copy the folder anew")
    for name in sorted(tensor_names):
        part = file.get_slice(name)
        kind, sizes = part.get_dtype(), part.get_shape()
        if kind not in _KINDS:
            raise UnusableBase(
                f"{path}: {name} has numbers of the type {kind}, which count with scales that this program does not"
                f" read; take the model in one of {', '.join(_KINDS)}"
            )
        array = file.get_tensor(name).float().numpy()
        if not _SPEEDS.fullmatch(name):
            yield name, array
        elif not _is_plain(array, shape):
            raise UnusableBase(f"{path}: {name} of sizes {sizes} turns positions otherwise than rope_theta does")


def _is_plain(speeds: NDArray[np.float32], shape: LlamaShape) -> bool:
    """Return whether positions turn so fast as `llama.rotations` has it, up to the digits of half precision."""
    usual = shape.rope_theta ** -(np.arange(0, shape.head_size, 2) / shape.head_size)
    return speeds.shape == usual.shape and np.allclose(speeds, usual, rtol=0.01, atol=1e-7)


def config_of(shape: LlamaShape) -> dict[str, Any]:
    """The config.json of a model of this shape, as transformers reads it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_size,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.rms_epsilon,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": None,
    }
