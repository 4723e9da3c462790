"""The format GGUF: the fields and tensors of a file. Each count is compared with the file's length before it is used.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import mmap
import struct
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

_MAGIC, _VERSIONS = b"GGUF", (2, 3)
# By the number of its type how a value is written.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_ALIGNMENT = "general.alignment"
# ggml's own limit.
_MOST_DIMENSIONS = 4


class Placed(NamedTuple):
    """A tensor in the file, its sizes outermost first. `kind` is the number of its type."""

    name: str
    sizes: tuple[int, ...]
    kind: int
    start: int


class Container:
    """An open file. Raises `ValueError` in words if the file is damaged."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        if self._take(4) != _MAGIC:
            raise ValueError("it does not begin with GGUF")
        version = self._number("I")
        if version not in _VERSIONS:
            raise ValueError(f"it is of version {version}, and {_VERSIONS} are read")
        # A tensor takes 24 bytes at least, a field 13.
        tensors, fields = self._count(24), self._count(13)
        self.fields: dict[str, Any] = {}
        for _ in range(fields):
            self._field()
        placed = [self._placed() for _ in range(tensors)]
        alignment = self.fields.get(_ALIGNMENT, 32)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise ValueError(f"{_ALIGNMENT} is {alignment!r:.40}, no power of 2")
        self._alignment = alignment
        begin = self._aligned(self._at)
        self.tensors = [tensor._replace(start=begin + tensor.start) for tensor in placed]
        self._next = begin

    def data(self, tensor: Placed, block: int, size: int) -> memoryview:
        """The bytes of the next tensor. Its numbers are kept in blocks of so many numbers, of `size` bytes each.
        Tensors follow one another, as llama.cpp wants them."""
        if tensor.start != self._next:
            raise ValueError(f"{tensor.name} does not begin where the tensor before it ends")
        if not tensor.sizes or tensor.sizes[-1] % block:
            raise ValueError(f"{tensor.name} of sizes {list(tensor.sizes)} has no whole blocks of {block}")
        length = prod(tensor.sizes) // block * size
        if tensor.start + length > len(self._bytes):
            raise ValueError(f"{tensor.name} of sizes {list(tensor.sizes)} goes beyond the end of the file")
        self._next = self._aligned(tensor.start + length)
        return memoryview(self._bytes)[tensor.start : tensor.start + length]

    def _aligned(self, place: int) -> int:
        return place + -place % self._alignment

    def _take(self, length: int) -> bytes:
        if length > len(self._bytes) - self._at:
            raise ValueError(f"{length} bytes are wanted at byte {self._at} of {len(self._bytes)}")
        self._at += length
        return self._bytes[self._at - length : self._at]

    def _number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self._take(struct.calcsize(f"<{kind}")))[0]

    def _count(self, least: int) -> int:
        """Return the number of the following items. Each of them takes at least so many bytes."""
        count = int(self._number("Q"))
        if count * least > len(self._bytes):
            raise ValueError(f"{count} things are announced in a file of {len(self._bytes)} bytes")
        return count

    def _text(self) -> str:
        return self._take(self._count(1)).decode("utf-8")

    def _field(self) -> None:
        name, kind = self._text(), int(self._number("I"))
        if name in self.fields:
            raise ValueError(f"{name} stands there twice")
        self.fields[name] = self._array(name) if kind == _ARRAY else self._value(name, kind)

    def _array(self, name: str) -> list[Any]:
        kind = int(self._number("I"))
        if kind == _STRING:
            return [self._text() for _ in range(self._count(8))]
        code = self._code(name, kind)
        count = self._count(struct.calcsize(f"<{code}"))
        return list(struct.unpack(f"<{count}{code}", self._take(count * struct.calcsize(f"<{code}"))))

    def _value(self, name: str, kind: int) -> Any:
        return self._text() if kind == _STRING else self._number(self._code(name, kind))

    def _code(self, name: str, kind: int) -> str:
        if kind not in _SCALARS:
            raise ValueError(f"{name} is of the type {kind}, which is not read")
        return _SCALARS[kind]

    def _placed(self) -> Placed:
        name, dimensions = self._text(), int(self._number("I"))
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError(f"{name} has {dimensions} dimensions")
        sizes = [int(self._number("Q")) for _ in range(dimensions)]
        return Placed(name, tuple(reversed(sizes)), int(self._number("I")), int(self._number("Q")))
