"""Adapters and bases as files that peft, vLLM and LoRAX load."""

from pathlib import Path

from safetensors.numpy import save as save_arrays
from safetensors.torch import save as save_tensors

from marless.functions.encoding import from_json, to_json_text
from marless_language.adapter_layout import AdapterLayout, Flat, projections
from marless_language.model.base_model import Base
from marless_language.model.hugging_face import TOKENIZER, config_of
from marless_language.model.hugging_face_config import CONFIG

ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
# peft looks for its own names under the module that wraps the model.
_PREFIX = "base_model.model."


def write_adapter(layout: AdapterLayout, adapter: Flat, folder: Path, base: str) -> None:
    """Writes an adapter into an existing folder. `base` is the path or name of the model that it belongs to."""
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": layout.rank,
        "lora_alpha": layout.rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(name.split(".")[-1] for name in projections(layout.shape)),
        "layers_to_transform": [*range(layout.first, layout.shape.layers)],
        "inference_mode": True,
    }
    folder.joinpath(ADAPTER_CONFIG).write_text(to_json_text(config), encoding="utf-8")
    matrices = {f"{_PREFIX}{name}": matrix for name, matrix in layout.split(adapter).items()}
    folder.joinpath(ADAPTER).write_bytes(save_arrays(matrices, metadata={"format": "pt"}))


def write_base(base: Base, folder: Path) -> None:
    """Writes a base into an existing folder as Hugging Face's packages read it. Its tokenizer only if it is theirs."""
    folder.joinpath(CONFIG).write_text(to_json_text(config_of(base.shape)), encoding="utf-8")
    folder.joinpath("model.safetensors").write_bytes(save_tensors(dict(base.weights), metadata={"format": "pt"}))
    if "model" in from_json(base.header.tokenizer, dict[str, object]):
        folder.joinpath(TOKENIZER).write_text(base.header.tokenizer, encoding="utf-8")
