"""Worlds whose steps have the same bytes on every machine."""

from functions.environments.mpe.arithmetic import EXACT
from functions.environments.mpe.world import World


class ExactWorld(World):
    """The physics of `World` with exact functions."""

    arithmetic = EXACT


def exact_world() -> type[World]:
    """Worlds stepped by the kernels where these are built, which is faster; the bytes are those of `ExactWorld`."""
    from functions.environments.mpe.native_world import NativeWorld
    from functions.nn.native.kernels import are_built

    return NativeWorld if are_built() else ExactWorld
