"""The compiled kernels, what they take, and the checks before every call, as C would read an array of another type or
shape as something else. Nothing is computed here."""

import ctypes
import platform
from ctypes import POINTER, Structure, addressof, c_char, c_double, c_float, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from functions.errors import MissingExtra
from functions.native.variants import SOURCE, VARIANTS, library_name, sources_digest

RowIndices = NDArray[np.int64]
BLOCK = 16
"""That of lanes.h."""


class AdamFields(Structure):
    """`Adam` of adam.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("parameters", "first", "second", "gradient")),
        *((name, c_int64) for name in ("size", "steps")),
        *((name, c_double) for name in ("lr", "epsilon", "max_grad_norm")),
    ]


class PolicyRowsFields(Structure):
    """`PolicyRows` of losses.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("actions", "log_probability", "advantage", "legal")),
        *((name, c_float) for name in ("clip", "entropy_weight")),
    ]


class ValueRowsFields(Structure):
    """`ValueRows` of losses.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("old_values", "targets")),
        *((name, c_float) for name in ("clip", "delta")),
    ]


class PassesFields(Structure):
    """`Passes` of kernels.c."""

    _fields_ = [
        *((name, c_void_p) for name in ("inputs", "order", "bounds")),
        ("minibatches", c_int64),
        *((name, c_void_p) for name in ("metrics", "losses", "norms")),
    ]


# What each kernel returns, and what it takes.
_KERNELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "sources": (c_uint64, ()),
    "runs_here": (c_int64, ()),
    "elementwise": (None, (c_int64, c_void_p, c_int64)),
    "network_bytes": (c_int64, ()),
    "network_numbers": (c_int64, (c_void_p, c_int64, c_void_p, c_int64, c_int64, c_int64, c_int64)),
    "network_place": (None, (c_void_p, c_void_p)),
    "network_forward": (None, (c_void_p, c_void_p, c_void_p, c_int64, c_void_p)),
    "network_pack": (None, (c_void_p, c_void_p)),
    "networks_forward": (None, (c_void_p, c_int64, c_void_p, c_int64, c_void_p)),
    "choices_draw": (None, (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p)),
    "doubles_exp": (None, (c_void_p, c_int64)),
    "world_advance": (None, (c_void_p,)),
    "network_backward": (None, (c_void_p, c_void_p, c_int64, c_void_p)),
    "network_step": (c_double, (POINTER(AdamFields),)),
    "network_train": (
        None,
        (c_void_p, POINTER(AdamFields), POINTER(PassesFields), POINTER(PolicyRowsFields), POINTER(ValueRowsFields)),
    ),
}


@cache
def kernels(folder: Path = SOURCE.parent) -> ctypes.CDLL:
    """Those in the folder for the fastest instruction set that this processor has; raises `MissingExtra`.

    Libraries of other sources than those beside them would give other bytes, or read arrays as something else.
    """
    sources = sources_digest(folder)
    for variant in VARIANTS.get(platform.machine(), ()):
        library = _library(folder / library_name(variant))
        if library and library.runs_here() and sources in (0, library.sources()):
            return library
    raise MissingExtra(
        "algorithm.engine=native: there are no kernels for this processor that were compiled from these sources;"
        " install a C compiler, then marless again, or begin a run with algorithm.engine=numpy"
    )


def are_built() -> bool:
    """Whether `kernels` returns any."""
    try:
        return bool(kernels())
    except MissingExtra:
        return False


def _library(path: Path) -> ctypes.CDLL | None:
    """None if there is no library, or one for another system or with other kernels."""
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _KERNELS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return library


def address(array: NDArray[Any], kind: DTypeLike, shape: tuple[int, ...], is_written: bool = False) -> int:
    """Where the array's numbers are; raises `ValueError` unless it is of that type and shape, in one piece and, where
    the kernels write it, writable."""
    flags = array.flags
    if array.dtype != kind or array.shape != shape or not (flags.c_contiguous and flags.aligned):
        raise ValueError(f"{array.dtype} {array.shape} in place of {np.dtype(kind)} {shape}, in one piece")
    if is_written and not flags.writeable:
        raise ValueError(f"an array {shape} that is to be written cannot be")
    return start_of(array)


def start_of(array: NDArray[Any]) -> int:
    """Where the numbers of an array in one piece are; in a third of the time of `array.ctypes.data` where it can be."""
    if array.size and array.flags.writeable:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    return array.ctypes.data


def require_indices(indices: RowIndices, count: int) -> None:
    """Raises `ValueError` unless all are from 0 to `count` - 1."""
    if len(indices) and not 0 <= indices.min() <= indices.max() < count:
        raise ValueError(f"an index is not from 0 to {count - 1}")
