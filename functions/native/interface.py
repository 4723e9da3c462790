"""The interface of the compiled kernels: their structures and functions, as C declares them."""

from ctypes import CDLL, POINTER, Structure, c_char_p, c_double, c_float, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any


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


class EntitiesFields(Structure):
    """`Entities` of entities.h."""

    _fields_ = [
        *((name, c_int64) for name in ("inputs", "tokens", "width", "embedding")),
        *((name, c_void_p) for name in ("token", "columns", "absent")),
    ]


class PassesFields(Structure):
    """`Passes` of kernels.c."""

    _fields_ = [
        *((name, c_void_p) for name in ("inputs", "order", "bounds")),
        ("minibatches", c_int64),
        *((name, c_void_p) for name in ("metrics", "losses", "norms")),
    ]


class WorldFields(Structure):
    """`World` of physics.h."""

    _fields_ = [
        *((name, c_int64) for name in ("agents", "rows", "envs", "first_moving", "moving", "pairs")),
        *((name, c_void_p) for name in ("position", "velocity", "force", "relative", "squares", "distance")),
        *((name, c_void_p) for name in ("most_speed", "reach", "first", "second", "strength")),
    ]


# The result and the arguments of each kernel.
KERNELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "sources": (c_uint64, ()),
    "compiler": (c_char_p, ()),
    "runs_here": (c_int64, ()),
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
}


def open_library(path: Path) -> CDLL:
    """Load a library and declare its functions. Raises `OSError` for a library of another system, `AttributeError` for
    one with other functions."""
    library = CDLL(str(path))
    for name, (result, arguments) in KERNELS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
