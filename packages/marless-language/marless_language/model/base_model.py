"""A base: a frozen language model in one object, which is mapped into memory and not read.

It is made once of a Hugging Face folder or a GGUF file. Nothing is ever fetched. Numbers are of single precision. All
processes of a machine that open the same file share its pages.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from marless.functions.encoding import to_json, to_json_text
from marless_language.base_header import METADATA, BaseHeader, LlamaShape, read_header, require_possible
from marless_language.errors import UnusableBase
from marless_language.model.gguf_file import read_gguf
from marless_language.model.hugging_face import read_folder
from marless_language.model.llama import HEAD, Weights, require_tensors
from marless_language.model.text_tokenizer import tokenizer_of
from marless_language.protocol import Vocabulary


@dataclass(frozen=True, eq=False)
class Base:
    """A frozen model and its vocabulary."""

    header: BaseHeader
    weights: Weights
    """By Hugging Face's names, float32."""

    @property
    def shape(self) -> LlamaShape:
        return self.header.shape

    @property
    def context(self) -> int:
        """Tokens that the model can read."""
        return self.shape.context

    @property
    def vocabulary(self) -> int:
        return self.shape.vocabulary

    @cached_property
    def tokenizer(self) -> Vocabulary:
        """Raises `MissingExtra` where its package is not installed."""
        return tokenizer_of(self.header.tokenizer)


def convert(source: Path, tokenizer: str = "") -> bytes:
    """A base's object from a folder with config.json and safetensors, or from a file in the format GGUF.

    `tokenizer` is the base's tokenizer if the source has none. Equal sources give equal bytes. Raises `UnusableBase`,
    `MissingExtra` and `OSError`.
    """
    with enough_memory(str(source)):
        shape, tensors, theirs = read_folder(source) if source.is_dir() else read_gguf(source)
        if not (theirs or tokenizer):
            raise UnusableBase(f"{source} has no tokenizer.json; put that of the model beside it")
        _require_rows(shape, theirs or tokenizer, str(source))
        return encode(BaseHeader(shape, theirs or tokenizer), tensors, str(source))


def _require_rows(shape: LlamaShape, tokenizer: str, name: str) -> None:
    """Raises `UnusableBase` unless the model has a row for each token. It may have further rows, which are never
    used."""
    size = tokenizer_of(tokenizer, f"{name}: its tokenizer").size
    if size > shape.vocabulary:
        raise UnusableBase(
            f"{name}: its tokenizer has token {size - 1}, and the model {shape.vocabulary} rows; they are not of one"
            " model"
        )


def encode(header: BaseHeader, tensors: Mapping[str, NDArray[np.float32]], name: str) -> bytes:
    """The object of a model. Raises `UnusableBase` for tensors of another shape and numbers that are not finite."""
    body = {key: np.ascontiguousarray(tensors[key], np.float32) for key in sorted(tensors) if key != HEAD}
    if not header.shape.tied and HEAD in tensors:
        body[HEAD] = np.ascontiguousarray(tensors[HEAD], np.float32)
    require_possible(header.shape, name)
    require_tensors(header.shape, {key: array.shape for key, array in body.items()}, name)
    if key := next((key for key, array in body.items() if not np.isfinite(array).all()), None):
        raise UnusableBase(f"{name}: {key} has numbers that are infinite, or none; it is damaged, so take another copy")
    return _serialise(body, {METADATA: to_json_text(header)})


def _serialise(tensors: Mapping[str, NDArray[np.float32]], metadata: Mapping[str, str]) -> bytes:
    """The arrays in the format safetensors. Its own library ends the process where there is no memory for the bytes."""
    entries, start = dict[str, Any](__metadata__=metadata), 0
    for name, array in tensors.items():
        offsets = (start, start + array.nbytes)
        entries[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": offsets}
        start = offsets[1]
    beginning = to_json(entries)
    beginning += b" " * (-len(beginning) % 8)
    return b"".join((len(beginning).to_bytes(8, "little"), beginning, *(array.data for array in tensors.values())))


def open_base(path: Path) -> Base:
    """The base in a file, which is mapped and not read. Raises `UnusableBase` where it is none, and `OSError`."""
    header = read_header(path)
    with enough_memory(str(path)), _readable(str(path)):
        file: Any = safe_open(path, "pt")
        with file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    require_tensors(header.shape, {name: tuple(tensor.shape) for name, tensor in weights.items()}, str(path))
    return Base(header, weights)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except SafetensorError as error:
        raise UnusableBase(f"{name} is cut short or damaged ({error}); make the base anew") from error


@contextmanager
def enough_memory(name: str) -> Iterator[None]:
    """Turn libraries' errors about missing memory into `UnusableBase`."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        raise UnusableBase(
            f"{name}: the machine has not enough memory for this model; end other programs or take a smaller model"
        ) from error
