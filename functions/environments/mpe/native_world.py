"""Worlds stepped by the kernels."""

from ctypes import byref
from typing import Any

import numpy as np

from marless.functions.environments.mpe.exact_world import ExactWorld
from marless.functions.environments.mpe.world import Real
from marless.functions.native.interface import WorldFields
from marless.functions.native.kernels import address, kernels, require_indices


def exp(values: Real) -> Real:
    """Compute `exact_world.exp` with the same bytes."""
    result = np.array(values, order="C")
    kernels().doubles_exp(address(result, np.float64, result.shape), result.size)
    return result


class NativeWorld(ExactWorld):
    """An `ExactWorld` in C, with the same bytes."""

    exp = staticmethod(exp)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        agents, rows, envs = self.agents, len(self.position), self.num_envs
        moving, pairs = len(self._moving), len(self._pairs)
        first, second = np.divmod(self._pairs, rows)
        require_indices(first, agents)
        require_indices(second, rows)
        by_agent, by_pair, strength = (agents, 2, envs), (agents, rows, 2, envs), np.zeros(envs)
        written = (
            (self.position, (rows, 2, envs)), (self.velocity, by_agent), (self._force, by_agent),
            (self.relative, by_pair), (self.squares, by_pair), (self.distance, (agents, rows, envs)),
        )  # fmt: skip
        self._fields = WorldFields(
            agents, rows, envs, self._movers.start or 0, moving, pairs,
            *(address(array, np.float64, shape, is_written=True) for array, shape in written),
            address(self._max_speed, np.float64, (moving, 1)), address(self._reach, np.float64, (pairs, 1)),
            address(first, np.int64, (pairs,)), address(second, np.int64, (pairs,)),
            address(strength, np.float64, (envs,), is_written=True),
        )  # fmt: skip
        # C reads and writes them as long as the fields are used.
        self._arrays = written, self._max_speed, self._reach, first, second, strength

    def advance(self) -> None:
        if len(self._moving):
            kernels().world_advance(byref(self._fields))
