"""Stress at the walls of a channel: the log law, and given magnitudes.

The log law is ``u / u_τ = ln(y⁺) / κ + B`` with κ = 0.41 and B = 5.2 (Pope, "Turbulent Flows", 2000, section
7.1.4). Lengths are in h, velocities in U_b, stresses in U_b² per density.
"""

from typing import NamedTuple

import numpy as np

from marless_tasks.channel.solver import KAPPA, Array, Grid, WallStress

INTERCEPT = 5.2
# Wall models read the velocity in this cell, counted from the wall.
MATCHED = 3


class Channel(NamedTuple):
    """A channel at one Reynolds number `reynolds`, which is u_τ h over the viscosity."""

    reynolds: float
    speed: float
    """u_τ, so that the log law over the whole height has the bulk velocity 1."""

    @classmethod
    def at(cls, reynolds: float) -> "Channel":
        """The mean of the log law over the height is ``u_τ ((ln Re_τ - 1) / κ + B)``."""
        return cls(reynolds, 1 / ((np.log(reynolds) - 1) / KAPPA + INTERCEPT))

    @property
    def viscosity(self) -> float:
        """Of the fluid, in h U_b."""
        return self.speed / self.reynolds

    @property
    def stress(self) -> float:
        """τ*, the mean stress at a wall."""
        return self.speed**2

    def profile(self, heights: Array) -> Array:
        """The log law at distances from the wall."""
        return self.speed * law(heights * self.reynolds)


def law(heights: Array) -> Array:
    """The log law in wall units."""
    speeds: Array = np.log(heights) / KAPPA + INTERCEPT
    return speeds


def log_law_stress(speeds: Array, height: float, viscosity: float | Array) -> Array:
    """The stress under a flow of these speeds at a height: of the log law, or of a viscous layer where that is more."""
    friction = np.maximum(speeds, 12 * viscosity / height)
    for _ in range(8):  # Newton's method: from above, a convex function decreases to its root
        slope = law(friction * height / viscosity) + 1 / KAPPA
        friction = (friction / KAPPA + speeds) / slope
    stress: Array = np.maximum(friction**2, viscosity * speeds / height)
    return stress


def equilibrium(grid: Grid, viscosity: float) -> WallStress:
    """The equilibrium wall model: every cell at a wall has the stress of the log law through the matched cell."""
    height = (MATCHED - 0.5) * grid.sizes[0]
    return lambda velocity: directed(
        velocity, log_law_stress(np.hypot(*parallel(velocity, MATCHED)), height, viscosity)
    )


def directed(velocity: Array, magnitudes: Array) -> Array:
    """The stress of these magnitudes ``[2, nx, nz]`` along the velocities of the matched cells."""
    along = parallel(velocity, MATCHED)
    along *= magnitudes / np.maximum(np.hypot(*along), 1e-12)
    for part, axis in zip(along, (1, 2), strict=True):  # from centres to lower faces
        part += np.roll(part, 1, axis)
    along *= 0.5
    return along


def parallel(velocity: Array, cell: int) -> Array:
    """The velocities along x and z ``[2, 2, nx, nz]`` at the centres of the cells that are so far from both walls."""
    rows = velocity[::2, [cell, -1 - cell]]
    return 0.5 * np.stack(
        [rows[0, :, 1:-1, 1:-1] + rows[0, :, 2:, 1:-1], rows[1, :, 1:-1, 1:-1] + rows[1, :, 1:-1, 2:]]
    )
