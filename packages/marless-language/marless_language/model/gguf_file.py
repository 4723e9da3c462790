"""Reads a model of the Llama family from one file in the format GGUF. Its numbers may be quantised.

Unknown tensors, and unknown fields that may change the results, are refused by their names.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.errors import MissingExtra
from marless_language.base_header import LlamaShape, require_possible
from marless_language.errors import UnusableBase
from marless_language.model.gguf_container import Container
from marless_language.model.gguf_tokenizer import tokenizer_of_fields
from marless_language.model.llama import require_tensors

# GGUF's names of tensors, and Hugging Face's names.
_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_IN_LAYERS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}
_BLOCK = re.compile(r"blk\.(0|[1-9]\d*)\.(\w+)\.weight")
# Fields that describe the making of a file.
_SILENT = re.compile(r"general\.(?!architecture$|type$).*|quantize\.imatrix\..*|split\.no|split\.tensors\.count")
# Fields that change the results, and the values that leave them plain.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "general.architecture": ("llama",),
    "general.type": ("model",),
    "split.count": (0, 1),
    "llama.rope.scaling.type": ("none",),
    "llama.rope.scaling.factor": (1,),
    "llama.rope.scale_linear": (1,),
    "llama.attention.causal": (True,),
    "llama.use_parallel_residual": (False,),
    "llama.expert_count": (0,),
    "llama.expert_used_count": (0,),
}
_EMBEDDED, _HEAD = "token_embd.weight", "output.weight"
# Types of numbers that are whole, that only products have meanwhile, or that count with a scale of their tensor.
_NO_FLOATS = ("F64", "I8", "I16", "I32", "I64", "Q8_1", "Q8_K", "Q1_0", "NVFP4")


def read_gguf(path: Path) -> tuple[LlamaShape, dict[str, NDArray[np.float32]], str]:
    """The shape, the tensors by Hugging Face's names and the tokenizer of the model. Raises `UnusableBase`,
    `MissingExtra` and `OSError`."""
    try:
        import gguf
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{path} needs a package to be read: pip install 'marless[language]'") from error
    path.open("rb").close()  # so that a file that cannot be opened is named by the system's own error
    try:
        file = Container(path)
        shape = _shape(file, path)
        tensors = _tensors(file, shape, path, gguf)
    except (ValueError, NotImplementedError) as error:
        raise UnusableBase(f"{path} is no GGUF file, or cut short or damaged ({error}); copy it anew") from error
    for name in tensors:
        heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads}.get(name.split(".")[-2])
        if heads:
            tensors[name] = _halves(tensors[name], heads)
    return shape, tensors, tokenizer_of_fields(file.fields, path)


def _tensors(file: Container, shape: LlamaShape, path: Path, gguf: Any) -> dict[str, NDArray[np.float32]]:
    """All of them, under Hugging Face's names. Sizes are looked at before any tensor is read."""
    names, kinds = [_name(tensor.name, path) for tensor in file.tensors], {int(k): k for k in gguf.GGMLQuantizationType}
    if len({*names}) != len(names):
        raise ValueError("two tensors have one name")
    require_tensors(shape, {name: tensor.sizes for name, tensor in zip(names, file.tensors, strict=True)}, str(path))
    tensors = {}
    for name, tensor in zip(names, file.tensors, strict=True):
        kind = kinds.get(tensor.kind)
        if kind is None or kind.name in _NO_FLOATS:
            what = f"{tensor.name} has numbers of the type {kind.name if kind else tensor.kind}"
            raise UnusableBase(f"{path}: {what}, which is not read; take the model in another one")
        block, size = gguf.GGML_QUANT_SIZES[kind]
        stored = np.frombuffer(file.data(tensor, block, size), np.uint8)
        stored = stored.view({"F32": np.float32, "F16": np.float16}.get(kind.name, np.uint8))
        array = gguf.quants.dequantize(stored.reshape(*tensor.sizes[:-1], -1), kind)
        tensors[name] = array.astype(np.float32)
    return tensors


def _name(name: str, path: Path) -> str:
    block = _BLOCK.fullmatch(name)
    if block and block.group(2) in _IN_LAYERS:
        return f"model.layers.{block.group(1)}.{_IN_LAYERS[block.group(2)]}.weight"
    stem, _, kind = name.rpartition(".")
    if kind == "weight" and stem in _NAMES:
        return f"{_NAMES[stem]}.weight"
    raise UnusableBase(
        f"{path}: {name} is no tensor of a plain model of the Llama family, so that its numbers would not count; take"
        " such a model"
    )


def _halves(matrix: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The rows of a projection in Hugging Face's order: GGUF has the two coordinates that positions turn side by side,
    not half a head apart."""
    outputs, inputs = matrix.shape
    return matrix.reshape(heads, outputs // heads // 2, 2, inputs).swapaxes(1, 2).reshape(outputs, inputs)


class _Sizes:
    """Numbers by name. A name that was asked for is known."""

    def __init__(self, fields: Mapping[str, Any], path: Path) -> None:
        self._fields, self._path, self.read_names = fields, path, set[str]()

    def number(self, name: str, default: float | None = None, kinds: tuple[type, ...] = (int,)) -> Any:
        self.read_names.add(name)
        value = self._fields.get(name, default)
        if value is None:
            raise UnusableBase(f"{self._path} does not say {name}, which a model needs; take another file")
        if type(value) not in kinds:
            raise UnusableBase(f"{self._path}: {name} is {value!r:.60}, and one number is needed; take another file")
        return value


def _shape(file: Container, path: Path) -> LlamaShape:
    fields, sizes = file.fields, _Sizes(file.fields, path)
    if fields.get("general.architecture") != "llama":
        what = fields.get("general.architecture")
        raise UnusableBase(f"{path}: its architecture is {what!s:.60}; take a plain model of the Llama family")
    heads, hidden = sizes.number("llama.attention.head_count"), sizes.number("llama.embedding_length")
    head_size = sizes.number("llama.attention.key_length", hidden // max(1, heads))
    embedded = [tensor.sizes for tensor in file.tensors if tensor.name == _EMBEDDED]
    rows = embedded[0][0] if embedded and embedded[0] else 0
    shape = LlamaShape(
        layers=sizes.number("llama.block_count"),
        hidden=hidden,
        heads=heads,
        kv_heads=sizes.number("llama.attention.head_count_kv", heads),
        head_size=head_size,
        intermediate=sizes.number("llama.feed_forward_length"),
        vocabulary=rows,
        context=sizes.number("llama.context_length"),
        rms_epsilon=float(np.float32(sizes.number("llama.attention.layer_norm_rms_epsilon", kinds=(float,)))),
        rope_theta=float(sizes.number("llama.rope.freq_base", 10_000, (int, float))),
        tied=all(tensor.name != _HEAD for tensor in file.tensors),
    )
    of_heads = dict.fromkeys(("llama.attention.value_length", "llama.rope.dimension_count"), (head_size,))
    _require_plain(fields, {**_PLAIN, **of_heads, "llama.vocab_size": (rows,)}, sizes.read_names, path)
    require_possible(shape, str(path))
    return shape


def _require_plain(
    fields: Mapping[str, Any], plain: Mapping[str, tuple[Any, ...]], sizes: set[str], path: Path
) -> None:
    for name, value in fields.items():
        is_known = name in sizes or name.startswith("tokenizer.") or _SILENT.fullmatch(name)
        if not is_known and not any(value == usual for usual in plain.get(name, ())):
            raise UnusableBase(
                f"{path}: {name} is {value!r:.60}, which is not supported, as it may change what is computed; take a"
                " plain model of the Llama family, in one file"
            )
