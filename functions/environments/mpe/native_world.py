"""Worlds stepped by the kernels."""

from ctypes import byref
from typing import Any

import numpy as np

from marless.functions.environments.mpe.exact_world import ExactWorld
from marless.functions.environments.mpe.world import Real
from marless.functions.native.interface import WorldFields
from marless.functions.native.kernels import address, kernels


def exp(values: Real) -> Real:
    """See `exact_world.exp`, whose bytes it has."""
    result = np.array(values, order="C")
    kernels().doubles_exp(address(result, np.float64, result.shape), result.size)
    return result


class NativeWorld(ExactWorld):
    """See `ExactWorld`, whose bytes it has."""

    exp = staticmethod(exp)

    def __init__(self, *arguments: Any) -> None:
        """See `World`."""
        super().__init__(*arguments)
        rows, moving = len(self.position), len(self._moving)
        doubles = (
            self.position, self.velocity, self._force, self.relative, self.squares, self.distance,
            self._max_speed, self._reach,
        )  # fmt: skip
        places, strength = np.divmod(self._pairs, rows), np.zeros(self.num_envs)
        self._arrays = *doubles, *places, strength
        self._fields = WorldFields(
            self.agents, rows, self.num_envs, self._movers.start or 0, moving, len(self._pairs),
            *(address(array, array.dtype, array.shape) for array in self._arrays),
        )  # fmt: skip

    def advance(self) -> None:
        """See `World`."""
        if len(self._moving):
            kernels().world_advance(byref(self._fields))
