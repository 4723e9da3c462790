"""The interface of the compiled kernels: their structures and functions, as kernels.h declares them."""

from ctypes import CDLL, POINTER, Structure, c_char_p, c_double, c_float, c_int64, c_uint64, c_void_p, sizeof
from itertools import takewhile
from pathlib import Path
from typing import Any

from marless.functions.native.games import fields as games
from marless.functions.setting_limits import MOST_KERNEL_LAYERS

BLOCK = 16
"""Rows in C are padded to multiples of so many numbers."""


class AdamFields(Structure):
    """`Adam` of kernels.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("parameters", "first", "second", "gradient")),
        *((name, c_int64) for name in ("size", "steps")),
        *((name, c_double) for name in ("lr", "epsilon", "max_grad_norm")),
    ]


class PolicyRowsFields(Structure):
    """`PolicyRows` of kernels.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("actions", "log_probability", "advantage", "legal")),
        *((name, c_float) for name in ("clip", "entropy_weight")),
    ]


class ValueRowsFields(Structure):
    """`ValueRows` of kernels.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("old_values", "targets")),
        *((name, c_float) for name in ("clip", "delta")),
    ]


class TokenFields(Structure):
    """`Token` of kernels.h."""

    _fields_ = [(name, c_int64) for name in ("start", "features", "weights", "bias", "absent")]


class EntitiesFields(Structure):
    """`Entities` of kernels.h."""

    _fields_ = [
        *((name, c_int64) for name in ("inputs", "tokens", "width", "heads", "embedding", "first_named", "named")),
        *((name, c_void_p) for name in ("token", "columns", "absent")),
    ]


class PassesFields(Structure):
    """`Passes` of kernels.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("inputs", "order", "bounds")),
        ("minibatches", c_int64),
        *((name, c_void_p) for name in ("metrics", "losses", "norms")),
    ]


class WorldFields(Structure):
    """`World` of kernels.h."""

    _fields_ = [
        *((name, c_int64) for name in ("agents", "rows", "envs", "first_moving", "moving", "pairs")),
        *((name, c_void_p) for name in ("position", "velocity", "force", "relative", "squares", "distance")),
        *((name, c_void_p) for name in ("most_speed", "reach", "first", "second", "strength")),
    ]


class LayoutFields(Structure):
    """`Layout` of kernels.h."""

    _fields_ = [("name", c_char_p), ("offset", c_int64), ("size", c_int64)]


STRUCTURES = (
    AdamFields, PolicyRowsFields, ValueRowsFields, TokenFields, EntitiesFields, PassesFields, WorldFields,
)  # fmt: skip
# The result and the arguments of each kernel.
KERNELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "sources": (c_uint64, ()),
    "compiler": (c_char_p, ()),
    "runs_here": (c_int64, ()),
    "layouts": (POINTER(LayoutFields), ()),
    "elementwise": (None, (c_int64, c_void_p, c_int64)),
    "network_bytes": (c_int64, ()),
    "network_numbers": (
        c_int64,
        (c_void_p, c_int64, c_void_p, c_int64, c_int64, POINTER(EntitiesFields), c_int64, c_int64),
    ),
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
    **games.KERNELS,
}


def open_library(path: Path) -> CDLL:
    """Load a library and declare its functions. Raises `OSError` for a library of another system, `AttributeError` for
    one with other functions."""
    library = CDLL(str(path))
    for name, (result, arguments) in KERNELS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def layouts(library: CDLL) -> dict[str, tuple[int, int]]:
    """Return the offset and the size of each structure and field in the library, and its constants as sizes."""
    rows = takewhile(lambda row: row.name, library.layouts())
    return {row.name.decode(): (row.offset, row.size) for row in rows}


def declared_layouts() -> dict[str, tuple[int, int]]:
    """Return the same as declared here."""
    table = {"BLOCK": (0, BLOCK), "MOST_LAYERS": (0, MOST_KERNEL_LAYERS)} | games.layouts()
    for structure in STRUCTURES:
        name = structure.__name__.removesuffix("Fields")
        table[name] = 0, sizeof(structure)
        fields = {field: getattr(structure, field) for field, *_ in structure._fields_}
        table |= {f"{name}.{field}": (place.offset, place.size) for field, place in fields.items()}
    return table
