"""The compiled kernels, and the checks before every call, as C would read an array of another type or
shape as something else. Nothing is computed here."""

import ctypes
import platform
from ctypes import addressof, c_char
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from marless.functions.errors import MissingExtra
from marless.functions.native.libraries import LibraryFault, load
from marless.functions.native.variants import SOURCE, VARIANTS, library_name, sources_digest

RowIndices = NDArray[np.int64]


@cache
def kernels(folder: Path = SOURCE.parent) -> ctypes.CDLL:
    """Return the kernels in the folder for the fastest instruction set that this processor has.

    Raises `MissingExtra` if there are none, and if each is refused, see `load`.
    """
    sources, faults = sources_digest(folder), list[str]()
    for variant in VARIANTS.get(platform.machine(), ()):
        try:
            if library := load(folder / library_name(variant), sources):
                return library
        except LibraryFault as error:
            faults.append(str(error))
    if faults:
        raise MissingExtra(
            f"algorithm.engine=native: {'; '.join(faults)}; install marless again with another compiler (CC=gcc), or"
            " begin a run with algorithm.engine=numpy"
        )
    raise MissingExtra(
        "algorithm.engine=native: there are no kernels for this processor that were compiled from these sources;"
        " install a C compiler, then marless again, or begin a run with algorithm.engine=numpy"
    )


def are_built() -> bool:
    """Return True if `kernels` returns a library."""
    try:
        return bool(kernels())
    except MissingExtra:
        return False


def address(array: NDArray[Any], kind: DTypeLike, shape: tuple[int, ...], is_written: bool = False) -> int:
    """Return the address of the array's numbers. Raises `ValueError` for another type or shape, or if it is not in one
    piece, or read-only but `is_written`."""
    flags = array.flags
    if array.dtype != kind or array.shape != shape or not (flags.c_contiguous and flags.aligned):
        raise ValueError(f"{array.dtype} {array.shape} in place of {np.dtype(kind)} {shape}, in one piece")
    if is_written and not flags.writeable:
        raise ValueError(f"an array {shape} that is to be written cannot be")
    return start_of(array)


def start_of(array: NDArray[Any]) -> int:
    """Return the address of a contiguous array's numbers, in a third of the time of `array.ctypes.data` if writable."""
    if array.size and array.flags.writeable:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    return array.ctypes.data


def require_indices(indices: RowIndices, count: int) -> None:
    """Raises `ValueError` unless all are from 0 to `count` - 1."""
    if len(indices) and not 0 <= indices.min() <= indices.max() < count:
        raise ValueError(f"an index is not from 0 to {count - 1}")
