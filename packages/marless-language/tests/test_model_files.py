"""Files of models: known contents are read exactly, and any other relevant content is refused by its name."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from model_files import change_config, gguf_tensors, write_folder, write_gguf  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from small_bases import SHAPE, SYMBOLS, base_of, random_body  # noqa: E402

from marless_language.errors import UnusableBase  # noqa: E402
from marless_language.model.base_model import convert  # noqa: E402
from marless_language.model.text_tokenizer import text_of  # noqa: E402
from marless_language.symbols import Symbols  # noqa: E402

VOCABULARY = text_of(SYMBOLS)
MATRIX, NORM = "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "model")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def refusal(source: Path, tokenizer: str = VOCABULARY) -> str:
    with pytest.raises(UnusableBase) as error:
        convert(source, tokenizer)
    assert "\n" not in str(error.value) and str(source) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"quantization_config": {"quant_method": "fp8"}},
        {"quantization": {"bits": 4}},
        {"architectures": ["LlamaForSequenceClassification"]},
        {"partial_rotary_factor": 0.5},
        {"rope_interleaved": True},
        {"sliding_window": 512},
        {"attn_logit_softcapping": 50.0},
        {"final_logit_softcapping": 30.0},
        {"attention_multiplier": 0.5},
        {"embedding_multiplier": 12.0},
        {"num_local_experts": 8},
        {"use_qk_norm": True},
        {"mlp_bias": True},
        {"auto_map": {"AutoModelForCausalLM": "mine.Model"}},
        {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
        {"no_rope_layers": [1, 0, 1]},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_unknown_setting_that_changes_results_is_refused(folder: Path, settings: dict[str, object]):
    change_config(folder, **settings)
    (name, value), *_ = settings.items()
    assert f"{name}={value}"[:30] in refusal(folder)


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        ({"type": "linear", "factor": 2.0}, "type=linear"),
        ({"rope_type": "default", "factor": 2.0}, "factor=2.0"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
        ({"rope_type": "default", "rope_theta": 5.0}, "rope_theta of two values, 5.0 and 100.0"),
    ],
)
def test_positions_that_turn_otherwise_are_refused(folder: Path, key: str, scaling: dict[str, object], words: str):
    change_config(folder, **{key: scaling})
    assert words in refusal(folder)


def test_neutral_and_descriptive_settings_change_nothing(folder: Path):
    change_config(
        folder,
        attention_bias=False,
        mlp_bias=False,
        rope_scaling=None,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        sliding_window=None,
        quantization_config=None,
        layer_types=["full_attention"] * 3,
        pretraining_tp=1,
        torch_dtype="bfloat16",
        attention_dropout=0.1,
        eos_token_id=[1, 2],
        use_cache=True,
        is_llama_config=True,
        max_sequence_length=32,
        tokenizer_model_max_length=32,
        tokenizer_padding_side="right",
        use_bidirectional_attention=False,
        unknown_to_all=None,
    )
    assert convert(folder, VOCABULARY) == random_body()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_hidden_layers": 10**9}, "29 tensors are no 1000000000 layers"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"num_key_value_heads": 3}, "3 heads of keys for 4"),
        ({"head_dim": 7}, "heads of 7 numbers"),
        ({"num_key_value_heads": 0}, "num_key_value_heads"),
        ({"vocab_size": 10**12}, "has the sizes"),
        ({"rope_theta": 0}, "rope_theta 0"),
        ({"rms_norm_eps": -1}, "rms_epsilon -1"),
    ],
)
def test_impossible_sizes_are_refused_by_name(folder: Path, settings: dict[str, object], words: str):
    change_config(folder, **settings)
    assert words in refusal(folder)


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        (torch.float8_e4m3fn, "weight_scale"),
        (torch.float8_e5m2, "weight_scale_inv"),
        (torch.int8, "SCB"),
        (torch.uint8, "absmax"),
    ],
    ids=str,
)
@pytest.mark.parametrize("with_scale", [True, False])
def test_numbers_that_count_with_a_scale_are_refused(folder: Path, kind: torch.dtype, scale: str, with_scale: bool):
    stored = weights(folder)
    stored[MATRIX] = (stored[MATRIX] * 10).to(kind)
    if with_scale:
        stored[MATRIX.replace("weight", scale)] = torch.ones(1)
    save_file(stored, folder / "model.safetensors")
    assert "q_proj" in refusal(folder)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1e300])
def test_numbers_beyond_single_precision_are_refused(folder: Path, number: float):
    stored = weights(folder)
    stored[MATRIX] = stored[MATRIX].double()
    stored[MATRIX][2, 1] = number
    save_file(stored, folder / "model.safetensors")
    assert f"{MATRIX} has numbers that are infinite, or none" in refusal(folder)


def test_numbers_of_each_precision_are_read_exactly(folder: Path):
    stored = weights(folder)
    kinds = (torch.float16, torch.bfloat16, torch.float64, torch.float32)
    stored = {name: stored[name].to(kinds[place % 4]) for place, name in enumerate(sorted(stored))}
    save_file(stored, folder / "model.safetensors")
    base = base_of(convert(folder, VOCABULARY))
    assert all(torch.equal(base.weights[name], tensor.float()) for name, tensor in stored.items())


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.1.self_attn.q_norm.weight",
        "model.layers.2.mlp.down_proj.bias",
        "model.layers.3.mlp.up_proj.weight",
        "model.layers.0.mlp.experts.0.w1.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
        "score.weight",
    ],
)
def test_unused_tensor_is_refused_by_name(folder: Path, name: str):
    save_file(weights(folder) | {name: torch.zeros(2)}, folder / "model.safetensors")
    assert name in refusal(folder)


def test_head_next_to_tied_embeddings_must_equal_them(folder: Path):
    stored = weights(folder)
    save_file(stored | {"lm_head.weight": stored["model.embed_tokens.weight"].clone()}, folder / "model.safetensors")
    assert convert(folder, VOCABULARY) == random_body()
    save_file(stored | {"lm_head.weight": stored["model.embed_tokens.weight"] + 1}, folder / "model.safetensors")
    assert "lm_head.weight differs from model.embed_tokens.weight" in refusal(folder)


def test_rotary_speeds_that_are_scaled_are_refused(folder: Path):
    name = "model.layers.2.self_attn.rotary_emb.inv_freq"
    save_file(weights(folder) | {name: torch.tensor([0.5, 0.1, 0.02])}, folder / "model.safetensors")
    assert f"{name} of sizes [3] turns positions otherwise" in refusal(folder)


@pytest.mark.parametrize("name", ["model_before.safetensors", "pytorch_model.safetensors", "a.safetensors"])
@pytest.mark.parametrize("has_index", [True, False])
def test_files_of_other_models_are_not_read(folder: Path, name: str, has_index: bool):
    stored = weights(folder)
    save_file({name: tensor + 1 for name, tensor in stored.items()}, folder / name)
    if has_index:
        places = dict.fromkeys(stored, "model.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    assert convert(folder, VOCABULARY) == random_body()


def test_one_file_under_another_name_is_the_model(folder: Path):
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    assert convert(folder, VOCABULARY) == random_body()


def test_several_files_without_an_index_are_refused(folder: Path):
    (folder / "model.safetensors").rename(folder / "new.safetensors")
    save_file(weights(write_folder(folder)), folder / "old.safetensors")
    (folder / "model.safetensors").unlink()
    assert "2 files of weights, new.safetensors to old.safetensors, and no model.safetensors.index" in refusal(folder)


def test_an_adapter_beside_the_model_is_refused(folder: Path):
    (folder / "adapter_config.json").write_text("{}")
    assert "holds adapter_config.json, an adapter: merge it" in refusal(folder)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({NORM: "missing.safetensors"}, "names missing.safetensors, which is no file"),
        ({NORM: "../model.safetensors"}, "names ../model.safetensors, which is no file"),
        ({"extra.weight": "model.safetensors"}, "extra.weight is not there, though the index names it"),
        ({NORM: None}, f"{NORM} is not in the index"),
        ({NORM: 3}, "weight_map"),
    ],
)
def test_index_that_mismatches_its_files_is_refused(folder: Path, places: dict[str, object], words: str):
    every = {**dict.fromkeys(weights(folder), "model.safetensors"), **places}
    every = {name: place for name, place in every.items() if place is not None}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": every}))
    assert words in refusal(folder)


def test_index_of_other_files_is_refused(folder: Path):
    save_file(weights(folder), folder / "part.safetensors")
    places = dict.fromkeys(weights(folder), "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert "does not name model.safetensors, which is there too" in refusal(folder)


def test_tokenizer_larger_than_model_is_refused(folder: Path):
    larger = text_of(Symbols([*"abcdefghij", ".", "!"]))
    assert "its tokenizer has token 11, and the model 11 rows" in refusal(folder, larger)


TOKENIZER = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("added_tokens.json", {"<end>": 2}),
        ("added_tokens.json", {"a": 1}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"2": {"content": "<end>", "special": True}}}),
    ],
)
def test_tokens_missing_in_tokenizer_are_refused(folder: Path, file: str, content: object):
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (folder / file).write_text(json.dumps(content))
    assert "and tokenizer.json has it otherwise" in refusal(folder)


def test_tokens_known_to_tokenizer_are_accepted(folder: Path):
    pytest.importorskip("tokenizers")
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    alone = convert(folder)
    (folder / "added_tokens.json").write_text('{"a": 0}')
    (folder / "tokenizer_config.json").write_text('{"added_tokens_decoder": {"1": {"content": "b"}}, "legacy": false}')
    assert convert(folder) == alone


def test_a_folder_of_gguf_files_names_them(tmp_path: Path):
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    assert refusal(tmp_path).endswith("has no config.json; name one of its files: a.gguf, b.gguf")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"llama.rope.dimension_count": 4}, "llama.rope.dimension_count is 4"),
        ({"llama.attention.value_length": 4}, "llama.attention.value_length is 4"),
        ({"llama.rope.scaling.type": "linear"}, "llama.rope.scaling.type is 'linear'"),
        ({"llama.rope.scaling.factor": 2.0}, "llama.rope.scaling.factor is 2.0"),
        ({"llama.attention.sliding_window": 512}, "llama.attention.sliding_window is 512"),
        ({"llama.attention.head_count_kv": [2, 2, 2]}, "llama.attention.head_count_kv is [2, 2, 2], and one number"),
        ({"llama.expert_count": 8}, "llama.expert_count is 8"),
        ({"llama.logit_scale": 0.5}, "llama.logit_scale is 0.5"),
        ({"llama.vocab_size": 12}, "llama.vocab_size is 12"),
        ({"split.count": 2}, "split.count is 2"),
        ({"general.type": "adapter"}, "general.type is 'adapter'"),
        ({"llama.block_count": 10**9}, "29 tensors are no 1000000000 layers"),
        ({"llama.block_count": 2}, "model.layers.2.input_layernorm.weight of the sizes [12] would not count"),
        ({"llama.attention.head_count": 0}, "heads 0"),
        ({"llama.context_length": None}, "does not say llama.context_length"),
        ({"tokenizer.ggml.pre": None}, "does not say tokenizer.ggml.pre"),
        ({"tokenizer.ggml.precompiled_charsmap": [1, 2]}, "tokenizer.ggml.precompiled_charsmap is [1, 2]"),
        ({"tokenizer.ggml.add_space_prefix": True}, "tokenizer.ggml.add_space_prefix is True"),
        ({"tokenizer.ggml.token_type": [1] * 7}, "token_type has 7 entries, and there are 11 tokens"),
        ({"tokenizer.ggml.token_type": [1] * 10 + [6]}, "token 10, 'y', is of kind 6"),
        ({"tokenizer.ggml.tokens": [*"aab1234", "ab", "Ġ", "x", "y"]}, "tokens 0 and 1 are both 'a'"),
        ({"tokenizer.ggml.merges": ["a q"]}, "'a q', which is no pair"),
        ({"tokenizer.ggml.merges": ["a b x"]}, "'a b x', which is no pair"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_gguf_field_that_changes_results_is_refused(tmp_path: Path, fields, words: str):
    assert words in refusal(write_gguf(tmp_path / "model.gguf", fields=fields))


def test_fields_with_their_plain_values_change_nothing(tmp_path: Path):
    fields = {
        "general.name": "a model",
        "general.file_type": 0,
        "general.type": "model",
        "quantize.imatrix.file": "somewhere",
        "llama.vocab_size": 11,
        "llama.rope.dimension_count": 6,
        "llama.attention.value_length": 6,
        "llama.rope.scaling.type": "none",
        "llama.expert_count": 0,
        "split.count": 1,
        "tokenizer.chat_template": "{{ messages }}",
        "tokenizer.ggml.bos_token_id": 8,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": False,
    }
    plain = write_gguf(tmp_path / "plain.gguf")
    assert convert(write_gguf(tmp_path / "model.gguf", fields=fields)) == convert(plain)


@pytest.mark.parametrize(
    "name", ["blk.0.attn_q.bias", "blk.1.attn_k_norm.weight", "rope_freqs.weight", "blk.0.ffn_down.scale"]
)
def test_unused_gguf_tensor_is_refused(tmp_path: Path, name: str):
    path = write_gguf(tmp_path / "model.gguf", tensors={name: np.ones(3, np.float32)})
    assert f"{name} is no tensor of a plain model" in refusal(path)


def test_whole_numbers_of_a_gguf_file_are_refused(tmp_path: Path):
    path = write_gguf(tmp_path / "model.gguf", tensors={"blk.0.attn_norm.weight": np.ones(12, np.int8)})
    assert "blk.0.attn_norm.weight has numbers of the type" in refusal(path)


def test_gguf_half_precision_is_read_exactly(tmp_path: Path):
    halves = {name: array.astype(np.float16) for name, array in gguf_tensors().items() if array.ndim == 2}
    base = base_of(convert(write_gguf(tmp_path / "model.gguf", tensors=halves)))
    assert np.array_equal(base.weights["model.embed_tokens.weight"], halves["token_embd.weight"].astype(np.float32))


def test_user_defined_gguf_tokens_stay_whole(tmp_path: Path):
    kinds = [1] * 8 + [3, 4, 5]
    path = write_gguf(tmp_path / "model.gguf", fields={"tokenizer.ggml.token_type": kinds})
    tokenizer = base_of(convert(path)).tokenizer
    assert tokenizer.encode("axb") == [0, 9, 1] and tokenizer.marks == {8}


def announced(*parts: bytes) -> bytes:
    """A GGUF file of version 3 with these parts."""
    return b"".join((b"GGUF", struct.pack("<I", 3), *parts))


@pytest.mark.parametrize(
    "body",
    [
        announced(struct.pack("<QQ", 2**60, 0)),
        announced(struct.pack("<QQ", 0, 2**40)),
        announced(struct.pack("<QQQ", 0, 1, 2**61), b"x"),
        announced(struct.pack("<QQQ", 0, 1, 1), b"k", struct.pack("<IIQ", 9, 4, 2**50)),
        announced(struct.pack("<QQQ", 0, 1, 1), b"k", struct.pack("<IIQ", 9, 8, 2**40), bytes(64)),
        announced(struct.pack("<QQQ", 0, 1, 1), b"k", struct.pack("<I", 9), struct.pack("<IQ", 9, 1) * 3000),
        announced(struct.pack("<QQQ", 0, 1, 1), b"k", struct.pack("<I", 250), bytes(64)),
        announced(struct.pack("<QQQ", 0, 1, 2), b"\xff\xfe", struct.pack("<II", 4, 1), bytes(64)),
        b"GGUF" + struct.pack(">I", 3) + bytes(64),
        bytes(1000),
        b"",
    ],
)
def test_gguf_file_that_promises_too_much_is_refused(tmp_path: Path, body: bytes):
    path = tmp_path / "model.gguf"
    path.write_bytes(body)
    assert "is no GGUF file, or cut short or damaged" in refusal(path)


def test_base_with_impossible_sizes_is_refused(tmp_path: Path):
    path, body = tmp_path / "base", random_body()
    path.write_bytes(body.replace(b'\\"kv_heads\\":2', b'\\"kv_heads\\":3'))
    assert path.read_bytes() != body and SHAPE.heads % 3
    with pytest.raises(UnusableBase, match="3 heads of keys for 4 of queries"):
        base_of(path.read_bytes())
