"""Numbers in a file of numpy's ``.npz``, read within bounds. Unrequested arrays stay packed, and a small file cannot
unpack to a large array. Arrays of objects are refused, so reading never runs code of the file."""

import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.coordinator.file_reading import open_file

# The latest end of an array's description. numpy's own limit is 10,000 characters.
_LONGEST_HEADER = 1 << 14
# Bytes that any file may unpack to, and how many times its size it may unpack to beyond. Masks and images of zeros pack
# well, but only a file of nothing else than zeros packs a thousand times.
_SMALL, _MOST_TIMES = 1 << 26, 100
_PIECE = 1 << 20


class ArrayFault(Exception):
    """An array is missing, damaged, too large, of another shape, or without numbers. The message names it."""


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    size: int


class ArrayNumbers:
    """The arrays of an open file."""

    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        """Raises `ArrayFault` for a file, called `name`, that is no archive."""
        try:
            self._archive = zipfile.ZipFile(file)
        except Exception as error:  # a damaged directory raises many errors besides BadZipFile
            raise ArrayFault(f"{name} is no file of numpy arrays (an export in npz is one)") from error
        self._left = max(_SMALL, _MOST_TIMES * size)

    def read(self, name: str, shape: tuple[int, ...] | None) -> NDArray[Any]:
        """Return the array of this name and shape, or of one axis of any length. Raises `ArrayFault`."""
        if f"{name}.npy" not in self._archive.NameToInfo:
            raise ArrayFault(f"it has no array {name}")
        try:
            with self._archive.open(f"{name}.npy") as file:
                return self._numbers(name, file, shape)
        except ArrayFault:
            raise
        except Exception as error:  # numpy, zipfile and the decompressors refuse bytes in a dozen ways
            raise ArrayFault(f"{name} is damaged: {' '.join(str(error).split()) or type(error).__name__}") from error

    def _numbers(self, name: str, file: Any, shape: tuple[int, ...] | None) -> NDArray[Any]:
        start = file.read(_LONGEST_HEADER)
        header = _header(start)
        if header.shape != shape if shape is not None else len(header.shape) != 1:
            raise ArrayFault(f"{name} is of shape {header.shape}, not {shape or '(any,)'}")
        if header.dtype.kind not in "biuf":
            raise ArrayFault(f"{name} holds what is not a number")
        size = math.prod(header.shape) * header.dtype.itemsize
        if min(header.shape, default=0) < 0 or size > self._left:
            raise ArrayFault(f"{name} unpacks to {size:,} bytes, too many for a file of this size")
        self._left -= size
        body = bytearray(start[header.size : header.size + size])
        while len(body) < size and (part := file.read(min(_PIECE, size - len(body)))):
            body += part
        # The end of an array is where its checksum is compared.
        if len(body) != size or len(start) > header.size + size or file.read(1):
            raise ArrayFault(f"{name} is damaged: it does not have {size:,} bytes")
        return np.frombuffer(body, header.dtype).reshape(header.shape, order="F" if header.fortran else "C")


def _header(start: bytes) -> _Header:
    file = io.BytesIO(start)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    return _Header(shape, fortran, dtype, file.tell())


@contextmanager
def opened_numbers(path: Path) -> Iterator[ArrayNumbers]:
    """Open the arrays of a regular file. Raises `ArrayFault`, or `UnreadableFile` if it is no regular file."""
    with open_file(path) as (file, size):
        yield ArrayNumbers(file, size, path.name)
