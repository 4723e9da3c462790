"""Reads a model of the Llama family from a local folder in the layout of Hugging Face."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from functions.encoding import Undecodable, from_json
from functions.language.base_header import LlamaShape
from functions.language.errors import UnusableBase
from functions.language.model.llama import tensor_shapes

CONFIG, TOKENIZER = "config.json", "tokenizer.json"


class Config(msgspec.Struct):
    """What config.json says, under its own names."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    vocab_size: int
    model_type: str = ""
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    hidden_act: str = "silu"


def read_folder(folder: Path) -> tuple[LlamaShape, dict[str, NDArray[np.float32]], str]:
    """The shape, the tensors by name and the tokenizer ('' for none) of the model; raises `UnusableBase`, `OSError`."""
    shape = shape_of(folder)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UnusableBase(f"{folder} has no .safetensors file; files of other formats can run code, and are not read")
    tensors, names = dict[str, NDArray[np.float32]](), tensor_shapes(shape)
    for file in files:
        try:
            tensors |= {name: array.float().numpy() for name, array in load_file(file).items() if name in names}
        except SafetensorError as error:
            raise UnusableBase(f"{file} is cut short or damaged ({error}); copy it anew") from error
    tokenizer = folder / TOKENIZER
    return shape, tensors, tokenizer.read_text(encoding="utf-8") if tokenizer.is_file() else ""


def shape_of(folder: Path) -> LlamaShape:
    """The sizes in the folder's config.json; raises `UnusableBase` for none, and for what is computed otherwise."""
    path = folder / CONFIG
    if not path.is_file():
        raise UnusableBase(f"{folder} has no config.json; name the folder of a model")
    try:
        config = from_json(path.read_bytes(), Config)
    except Undecodable as error:
        raise UnusableBase(f"{path}: {error}") from error
    rope = config.rope_parameters or config.rope_scaling or {}
    foreign = {
        f"model_type={config.model_type}": config.model_type != "llama",
        "attention_bias": config.attention_bias,
        "mlp_bias": config.mlp_bias,
        f"hidden_act={config.hidden_act}": config.hidden_act != "silu",
        "scaled rotary positions": rope.get("rope_type", rope.get("type", "default")) != "default",
    }
    unknown = next((what for what, is_so in foreign.items() if is_so), None)
    if unknown:
        raise UnusableBase(f"{path}: {unknown} is not supported; take a plain model of the Llama family")
    return LlamaShape(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads or config.num_attention_heads,
        head_size=config.head_dim or config.hidden_size // config.num_attention_heads,
        intermediate=config.intermediate_size,
        vocabulary=config.vocab_size,
        context=config.max_position_embeddings,
        rms_epsilon=config.rms_norm_eps,
        rope_theta=float(rope.get("rope_theta", config.rope_theta)),
        tied=config.tie_word_embeddings,
    )


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
