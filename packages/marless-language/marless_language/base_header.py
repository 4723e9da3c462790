"""The start of a base's object, which describes its model. It is read without torch.

A base is a frozen language model that any number of runs and roles share: one file in the safetensors format. Its
tensors have the names of a Hugging Face checkpoint. The metadata hold the shape of the model and the tokenizer.
"""

from math import isfinite
from pathlib import Path

import msgspec

from marless.functions.encoding import Undecodable, from_json
from marless_language.errors import UnusableBase

METADATA = "marless"
"""The one entry of the metadata; the library would write several in the order of a hash map."""
SCHEMA = 1
# The format begins with the length of the tensors' description. The library itself refuses longer descriptions.
_LENGTH, _LONGEST = 8, 100_000_000


class LlamaShape(msgspec.Struct, frozen=True):
    """The sizes of a model of the Llama family."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    context: int
    """Tokens that it can read."""
    rms_epsilon: float = 1e-5
    rope_theta: float = 10_000.0
    tied: bool = True
    """Whether the embedding is the head too."""


def require_possible(shape: LlamaShape, name: str) -> None:
    """Raises `UnusableBase` for sizes that no model has, with the `name` of their file."""
    shared, odd = shape.kv_heads, shape.head_size < 2 or shape.head_size % 2
    wrong = {
        f"{shared} heads of keys for {shape.heads} of queries": shared < 1 or shape.heads % shared,
        f"heads of {shape.head_size} numbers, which positions turn by twos": odd,
        f"rms_epsilon {shape.rms_epsilon}": not (isfinite(shape.rms_epsilon) and shape.rms_epsilon >= 0),
        f"rope_theta {shape.rope_theta}": not (isfinite(shape.rope_theta) and shape.rope_theta > 0),
    } | {
        f"{what} {getattr(shape, what)}": getattr(shape, what) < 1
        for what in ("layers", "hidden", "heads", "intermediate", "vocabulary", "context")
    }
    if flaw := next((what for what, is_so in wrong.items() if is_so), None):
        raise UnusableBase(f"{name}: {flaw}: no model has that; the file is damaged, so copy it anew")


class BaseHeader(msgspec.Struct, frozen=True):
    """The description of a base."""

    shape: LlamaShape
    tokenizer: str
    """JSON: a Hugging Face tokenizer.json, or ``{"symbols": [...]}``."""
    schema: int = SCHEMA


class _Start(msgspec.Struct):
    metadata: dict[str, str] = msgspec.field(name="__metadata__", default_factory=dict)


def read_header(path: Path) -> BaseHeader:
    """Of the base in a file. Raises `UnusableBase` where it is none, and `OSError`."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
        return _header(file.read(length) if length <= _LONGEST else b"", str(path))


def header_of(body: bytes, name: str) -> BaseHeader:
    """Of the base with these bytes, called `name` in errors. Raises `UnusableBase` where it is none."""
    length = int.from_bytes(body[:_LENGTH], "little")
    return _header(body[_LENGTH : _LENGTH + length], name)


def _header(start: bytes, name: str) -> BaseHeader:
    try:
        header = from_json(from_json(start, _Start).metadata[METADATA], BaseHeader)
    except (Undecodable, KeyError) as error:
        raise UnusableBase(
            f"{name} is no base of this program: its beginning does not say what model it is; name a file of marless"
            " pretrain, a .gguf, or the folder of a model"
        ) from error
    require_possible(header.shape, name)
    if header.schema != SCHEMA:
        raise UnusableBase(f"{name} is a base of schema {header.schema}, and this version reads {SCHEMA}; make it anew")
    return header
