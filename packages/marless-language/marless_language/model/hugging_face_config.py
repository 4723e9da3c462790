"""The sizes in the config.json of a model of the Llama family. Any other key that might change the results is refused
by its name."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from marless.functions.encoding import Undecodable, from_json
from marless_language.base_header import LlamaShape
from marless_language.errors import UnusableBase

CONFIG = "config.json"
# Of a model that could be held at all.
_Count = Annotated[int, Meta(ge=1, le=2**40)]


class Config(msgspec.Struct):
    """The sizes in config.json, under their own names."""

    num_hidden_layers: _Count
    hidden_size: _Count
    num_attention_heads: _Count
    intermediate_size: _Count
    vocab_size: _Count
    num_key_value_heads: _Count | None = None
    head_dim: _Count | None = None
    max_position_embeddings: _Count = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    tie_word_embeddings: bool | None = False


# Keys that change the results, and the values that leave them plain.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "model_type": ("llama",),
    "architectures": (["LlamaForCausalLM"],),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "hidden_act": ("silu", "swish"),
    "partial_rotary_factor": (1,),
    "rope_interleaved": (False,),
    "rope_type": ("default",),
    "sliding_window": (),
    "use_sliding_window": (False,),
    "use_bidirectional_attention": (False,),
    "use_qk_norm": (False,),
    "qk_norm": (False,),
    "embedding_multiplier": (1,),
    "residual_multiplier": (1,),
    "logits_scaling": (1,),
    "num_experts": (0,),
    "num_local_experts": (0,),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_encoder_decoder": (False,),
    "pruned_heads": ({},),
    "quantization_config": (),
}
# Keys that describe a model, its training, its files and how texts are drawn from it.
_DESCRIBING = """
_name_or_path name_or_path _commit_hash _attn_implementation _attn_implementation_autoset attn_implementation
_flash_attn_2_enabled transformers_version unsloth_version unsloth_fixed transformers.js_config is_llama_config
torch_dtype dtype use_bfloat16 torchscript initializer_range attention_dropout hidden_dropout resid_dropout
embd_dropout attention_probs_dropout_prob hidden_dropout_prob gradient_checkpointing pretraining_tp use_cache
return_dict output_attentions output_hidden_states output_scores return_dict_in_generate is_decoder
cross_attention_hidden_size chunk_size_feed_forward problem_type finetuning_task task_specific_params id2label
label2id tokenizer_class prefix bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id mask_token_id
decoder_start_token_id forced_bos_token_id forced_eos_token_id temperature top_k top_p typical_p repetition_penalty
length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences max_length
min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty remove_invalid_values
exponential_decay_length_penalty suppress_tokens begin_suppress_tokens tf_legacy_loss max_window_layers
max_sequence_length model_name tokenizer_model_max_length tokenizer_padding_side keys_to_ignore_at_inference
"""
_SILENT = frozenset(_DESCRIBING.split())
_ROPE = {"rope_type": "default", "type": "default", "partial_rotary_factor": 1, "factor": 1}


def shape_of(folder: Path) -> LlamaShape:
    """The sizes in the folder's config.json. Raises `UnusableBase` without sizes, and for a model that computes
    otherwise."""
    path = folder / CONFIG
    if not path.is_file():
        others = sorted(file.name for file in folder.glob("*.gguf"))
        advice = f"name one of its files: {', '.join(others[:3])}" if others else "name the folder of a model"
        raise UnusableBase(f"{folder} has no {CONFIG}; {advice}")
    try:
        body = path.read_bytes()
        config, settings = from_json(body, Config), from_json(body, dict[str, Any])
    except Undecodable as error:
        raise UnusableBase(f"{path}: {error}") from error
    _require_plain(settings, path)
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
        rope_theta=_theta(config, settings, path),
        tied=bool(config.tie_word_embeddings),
    )


def _require_plain(settings: dict[str, Any], path: Path) -> None:
    _require(settings.get("model_type", "") in _PLAIN["model_type"], path, f"model_type={settings.get('model_type')}")
    for name, value in settings.items():
        if value is None or name in _SILENT or name in Config.__struct_fields__:
            continue
        is_plain = any(value == plain for plain in _PLAIN.get(name, ()))
        is_full = name == "layer_types" and isinstance(value, list) and all(kind == "full_attention" for kind in value)
        _require(is_plain or is_full, path, f"{name}={value!s:.60}")


def _theta(config: Config, settings: dict[str, Any], path: Path) -> float:
    """Return the speed by which positions turn. The file may have it in two places, which must agree."""
    bases = {config.rope_theta} if "rope_theta" in settings else set[float]()
    for name, table in (("rope_parameters", config.rope_parameters), ("rope_scaling", config.rope_scaling)):
        for key, value in (table or {}).items():
            if key == "rope_theta" and type(value) in (int, float):
                bases.add(float(value))
            elif value is not None:
                is_plain = key in _ROPE and _ROPE[key] == value
                _require(is_plain, path, f"{name}.{key}={value!s:.60} (scaled rotary positions)")
    _require(len(bases) < 2, path, f"rope_theta of two values, {' and '.join(map(str, sorted(bases)))}")
    return bases.pop() if bases else config.rope_theta


def _require(is_plain: bool, path: Path, what: str) -> None:
    if not is_plain:
        raise UnusableBase(
            f"{path}: {what} is not supported, as it may change what is computed; take a plain model of the Llama"
            " family"
        )
