"""The tokenizer in a GGUF file, in the format of the package tokenizers."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marless.functions.encoding import to_json_text
from marless_language.errors import UnusableBase

_PREFIX = "tokenizer.ggml."
# How texts are split before pairs are merged, by the file's name of it. From llama.cpp's table of these names.
_GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_SPLITS: dict[str, dict[str, Any]] = {
    "gpt-2": _GPT2,
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _GPT2]},
}
# Kinds of tokens: a piece of text, a mark such as the end of a message, a text that is always one token, and an unused
# number.
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
_READ = ("model", "pre", "tokens", "token_type", "merges")
# The meanings of marks, and whether they are put around a text: here they never are.
_SILENT = re.compile(
    r"tokenizer\.ggml\.(\w+_token_id|add_(bos|eos|sep)_token|scores)|tokenizer\.chat_templates?(\.\w+)?"
)


def tokenizer_of_fields(fields: Mapping[str, Any], path: Path) -> str:
    """The tokenizer of a file's fields. Raises `UnusableBase` for one that cannot be reproduced exactly."""
    read: list[Any] = [fields.get(f"{_PREFIX}{name}") for name in _READ]
    if None in read:
        missing = _READ[read.index(None)]
        raise UnusableBase(f"{path} does not say {_PREFIX}{missing}, which a model needs; take another file")
    kind, split, tokens, kinds, merges = read
    if kind != "gpt2" or not isinstance(split, str) or split not in _SPLITS:
        raise UnusableBase(
            f"{path}: its tokenizer ({kind}, {split}) is not among {', '.join(_SPLITS)} of byte pairs; name a folder"
            " with config.json, .safetensors and tokenizer.json instead"
        )
    if problem := _others(fields) or _problem(tokens, kinds, merges):
        raise UnusableBase(
            f"{path}: {problem}; name a folder with config.json, .safetensors and tokenizer.json instead"
        )
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return to_json_text(
        {
            "version": "1.0",
            "added_tokens": [
                {"id": number, "content": token, **plain, "special": token_kind == _CONTROL}
                for number, (token, token_kind) in enumerate(zip(tokens, kinds, strict=True))
                if token_kind in (_CONTROL, _USER_DEFINED)
            ],
            "pre_tokenizer": _SPLITS[split],
            "decoder": _GPT2,
            "model": {
                "type": "BPE",
                "vocab": {token: number for number, token in enumerate(tokens)},
                "merges": [merge.split(" ") for merge in merges],
            },
        }
    )


def _others(fields: Mapping[str, Any]) -> str:
    """The first unknown field of a tokenizer, or ''."""
    for name, value in fields.items():
        is_known = name.removeprefix(_PREFIX) in _READ or _SILENT.fullmatch(name)
        is_off = name in (f"{_PREFIX}add_space_prefix", f"{_PREFIX}remove_extra_whitespaces") and value is False
        if name.startswith("tokenizer.") and not (is_known or is_off):
            return f"{name} is {value!r:.60}, which may change its tokens"
    return ""


def _problem(tokens: Any, kinds: Any, merges: Any) -> str:
    """Return the reason why a vocabulary cannot be reproduced exactly, or ''."""
    for name, values, kind in (("tokens", tokens, str), ("token_type", kinds, int), ("merges", merges, str)):
        if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
            return f"{_PREFIX}{name} is no list of {'texts' if kind is str else 'whole numbers'}"
    if len(kinds) != len(tokens):
        return f"{_PREFIX}token_type has {len(kinds)} entries, and there are {len(tokens)} tokens"
    return _token_problem(tokens, kinds) or _merge_problem({*tokens}, merges)


def _token_problem(tokens: list[str], kinds: list[int]) -> str:
    numbers = dict[str, int]()
    for number, token in enumerate(tokens):
        if numbers.setdefault(token, number) != number:
            return f"tokens {numbers[token]} and {number} are both {token!r:.40}"
        if kinds[number] not in (_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED):
            return f"token {number}, {token!r:.40}, is of kind {kinds[number]}, which is not read"
    return ""


def _merge_problem(tokens: set[str], merges: list[str]) -> str:
    for merge in merges:
        parts = merge.split(" ")
        if len(parts) != 2 or not {*parts, "".join(parts)} <= tokens:
            return f"{_PREFIX}merges has {merge!r:.40}, which is no pair of tokens that make one"
    return ""
