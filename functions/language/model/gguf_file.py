"""Reads a model of the Llama family from one file in the format GGUF, whose numbers may be quantised."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.encoding import to_json_text
from functions.errors import MissingExtra
from functions.language.base_header import LlamaShape
from functions.language.errors import UnusableBase

# GGUF's names of tensors, and those of Hugging Face.
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
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
_BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.weight")
# How texts are split before pairs are merged, by what the file calls it; from llama.cpp's table of these names.
_GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_SPLITS: dict[str, dict[str, Any]] = {
    "gpt-2": _GPT2,
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _GPT2]},
}
# Of a token's kinds: a mark such as the end of a message.
_CONTROL = 3


def read_gguf(path: Path) -> tuple[LlamaShape, dict[str, NDArray[np.float32]], str]:
    """The shape, the tensors by Hugging Face's names and the tokenizer of the model; raises `UnusableBase`,
    `MissingExtra` and `OSError`."""
    try:
        import gguf
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{path} needs a package to be read: pip install 'marless[language]'") from error
    path.open("rb").close()  # so that a file that cannot be opened is named by the system's own error
    try:
        reader: Any = gguf.GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        tensors = dict(_tensors(reader, gguf.quants.dequantize))
    except (ValueError, KeyError, IndexError, NotImplementedError) as error:
        raise UnusableBase(f"{path} is no GGUF file, or cut short or damaged ({error}); copy it anew") from error
    try:
        shape = _shape(fields, tensors, path)
        tokenizer = _tokenizer(fields, path)
    except KeyError as error:
        raise UnusableBase(f"{path} does not say {error.args[0]}, which a model needs; take another file") from error
    for name in tensors:
        heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads}.get(name.split(".")[-2])
        if heads:
            tensors[name] = _halves(tensors[name], heads)
    return shape, tensors, tokenizer


def _tensors(reader: Any, dequantize: Any) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for tensor in reader.tensors:
        block = _BLOCK.fullmatch(tensor.name)
        name = block.group(2) if block else tensor.name.removesuffix(".weight")
        if name in _NAMES:
            prefix = f"model.layers.{block.group(1)}." if block else ""
            yield f"{prefix}{_NAMES[name]}.weight", dequantize(tensor.data, tensor.tensor_type).astype(np.float32)


def _halves(matrix: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The rows of a projection in Hugging Face's order: GGUF has the two coordinates that positions turn side by side,
    not half a head apart."""
    outputs, inputs = matrix.shape
    return matrix.reshape(heads, outputs // heads // 2, 2, inputs).swapaxes(1, 2).reshape(outputs, inputs)


def _shape(fields: dict[str, Any], tensors: dict[str, NDArray[np.float32]], path: Path) -> LlamaShape:
    architecture = fields.get("general.architecture")
    if architecture != "llama" or any("rope.scaling" in name for name in fields):
        what = "its rotary positions are scaled" if architecture == "llama" else f"its architecture is {architecture}"
        raise UnusableBase(f"{path}: {what}; take a plain model of the Llama family")
    heads, hidden = int(fields["llama.attention.head_count"]), int(fields["llama.embedding_length"])
    return LlamaShape(
        layers=int(fields["llama.block_count"]),
        hidden=hidden,
        heads=heads,
        kv_heads=int(fields.get("llama.attention.head_count_kv", heads)),
        head_size=int(fields.get("llama.attention.key_length", hidden // heads)),
        intermediate=int(fields["llama.feed_forward_length"]),
        vocabulary=len(tensors.get("model.embed_tokens.weight", ())),
        context=int(fields["llama.context_length"]),
        rms_epsilon=float(np.float32(fields["llama.attention.layer_norm_rms_epsilon"])),
        rope_theta=float(fields.get("llama.rope.freq_base", 10_000)),
        tied="lm_head.weight" not in tensors,
    )


def _tokenizer(fields: dict[str, Any], path: Path) -> str:
    """The file's tokenizer in the format of the package tokenizers."""
    kind, split = fields["tokenizer.ggml.model"], fields.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or split not in _SPLITS:
        raise UnusableBase(
            f"{path}: its tokenizer ({kind}, {split}) is not among {', '.join(_SPLITS)} of byte pairs; name a folder"
            " with config.json, .safetensors and tokenizer.json instead"
        )
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return to_json_text(
        {
            "version": "1.0",
            "added_tokens": [
                {"id": number, "content": token, **plain}
                for number, (token, token_kind) in enumerate(zip(tokens, kinds, strict=True))
                if token_kind == _CONTROL
            ],
            "pre_tokenizer": _SPLITS[split],
            "decoder": _GPT2,
            "model": {
                "type": "BPE",
                "vocab": {token: number for number, token in enumerate(tokens)},
                "merges": [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]],
            },
        }
    )
