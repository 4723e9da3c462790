"""Checks of a tokenizer.json, before and after the package tokenizers has read it.

The package passes over settings that it does not know. Here they are refused by their names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

Document = Mapping[str, Any]

_PARTS = (
    "version",
    "truncation",
    "padding",
    "added_tokens",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "decoder",
    "model",
)
# Settings that `TextTokenizer` takes off. They belong to the person who saved the file, and change the tokens of texts.
_OFF = ("truncation", "padding", "post_processor", "dropout")
# Keys of older files. The package keeps their meaning under other names.
_RENAMED = ("add_prefix_space", "str_rep")
# So many times as long may texts become before they are split, and again where they are put together.
_MOST_GROWTH = 64


def require_sound(document: Document) -> None:
    """Raises `ValueError` for an unknown part, and for a vocabulary with two tokens of one id. Also raises it for
    replacements that together could make a text far longer."""
    if other := next((name for name in document if name not in _PARTS), None):
        raise ValueError(f"{other} ({document[other]!r:.40}) is not known to the package tokenizers")
    model = document.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not vocabulary or not isinstance(vocabulary, dict | list):
        raise ValueError("model.vocab has no token")
    keys = [*vocabulary.values()] if isinstance(vocabulary, dict) else [entry[0] for entry in vocabulary]
    twice, count = Counter(keys).most_common(1)[0]
    if count > 1:
        raise ValueError(f"model.vocab has {twice!r:.40} {count} times; take the model's own file")
    for name in ("normalizer", "decoder"):
        if prod(map(_growth, _parts_in(document.get(name)))) > _MOST_GROWTH:
            raise ValueError(f"{name} makes texts over {_MOST_GROWTH} times as long; take the model's own file")


def _parts_in(part: Any) -> Iterator[Mapping[str, Any]]:
    """All parts of a sequence, and of sequences in it."""
    waiting = [part]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, list):
            waiting += entry
        elif isinstance(entry, dict):
            yield entry
            waiting += [entry.get("normalizers"), entry.get("decoders")]


def _growth(part: Mapping[str, Any]) -> float:
    """By how much a part can lengthen a text. The package itself names parts of another form."""
    match part:
        case {"pattern": dict(pattern), "content": str(content)}:
            text = pattern.get("String")
            shortest = (len(text) if isinstance(text, str) else 0) or 1
            return max(1.0, (len(content) + 1) / (shortest + 1))
        case {"prepend": str(text)}:
            return max(1.0, len(text))
    return 1.0


def ids_of(document: Document) -> dict[str, int]:
    """The ids of all tokens by their texts. Raises `KeyError`, `TypeError`, `AttributeError` for a damaged document."""
    vocabulary = document["model"]["vocab"]
    pieces = vocabulary if isinstance(vocabulary, dict) else {entry[0]: place for place, entry in enumerate(vocabulary)}
    return {**pieces, **{entry["content"]: entry["id"] for entry in document.get("added_tokens") or ()}}


def require_known(document: Document, read: Document) -> None:
    """Raises `ValueError` for the first setting of a document that the package has not `read` as it stands.

    So it does for parts of words that could vanish unseen.
    """
    if place := next(_differences(_canonical(document), _canonical(read), ""), None):
        raise ValueError(f"{place} is not known to the package tokenizers, or damaged; take the model's own file")
    model = document["model"]
    if model.get("unk_token") is None and (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")):
        raise ValueError("model has parts of words that are written otherwise, and no unk_token; take another model")


def _canonical(document: Document) -> Document:
    """The document with merges in the form of newer files, and added tokens by their ids."""
    model, added = dict(document["model"]), document.get("added_tokens") or ()
    if "merges" in model:
        model["merges"] = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    return {**document, "model": model, "added_tokens": {str(entry["id"]): entry for entry in added}}


def _differences(theirs: Any, read: Any, place: str) -> Iterator[str]:
    """The places of settings that were not read as they stand."""
    if isinstance(theirs, dict) and isinstance(read, dict):
        for key, value in theirs.items():
            where = f"{place}.{key}" if place else key
            if key not in read and key not in _RENAMED:
                yield f"{where} ({value!r:.60})"
            elif key in read and key not in _OFF:
                yield from _differences(value, read[key], where)
    elif isinstance(theirs, list) and isinstance(read, list) and len(theirs) == len(read):
        for number, (one, other) in enumerate(zip(theirs, read, strict=True)):
            yield from _differences(one, other, f"{place}[{number}]")
    elif theirs != read:
        yield f"{place} ({theirs!r:.60})"
