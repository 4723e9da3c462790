"""The picture of a channel: the stress at both walls, and the mean velocity next to the log law."""

import numpy as np

from marless.functions.environments.scene import ORANGE, SKY_BLUE, Box, Colour, Disc, Line, Scene, Shape
from marless_tasks.channel.solver import INSIDE, Array, Grid
from marless_tasks.channel.walls import Channel

_SIDE, _GAP = 4.0, 1.0
# The picture of the profile has as many velocities, in u_τ, below and above the log law.
_MARGIN = 5.0


def drawn(channel: Channel, grid: Grid, velocity: Array, stress: Array) -> Scene:
    """Squares are agents: white at τ*, orange above it and blue below, full at half of τ* away. Dots are the flow."""
    shapes: list[Shape] = []
    for wall in range(2):
        shapes += _patches(stress[wall] / channel.stress, wall * (_SIDE + _GAP))
    heights = grid.heights[: grid.cells[0] // 2]
    means = velocity[0][INSIDE].mean(axis=(1, 2))
    speeds = 0.5 * (means + means[::-1])[: len(heights)] / np.sqrt(stress.mean())
    shapes += _profile(np.log(heights), speeds, channel.profile(heights) / channel.speed)
    texts = (
        f"Re_tau {channel.reynolds:,.0f}: mean stress {stress.mean() / channel.stress:.3f} of the right one",
        "lower wall, upper wall; mean velocity and log law over log y",
    )
    return Scene(2 * (_SIDE + _GAP) + 2 * _SIDE, _SIDE + 2 * _GAP, tuple(shapes), texts)


def _profile(logarithms: Array, speeds: Array, law: Array) -> list[Shape]:
    """Velocities in u_τ over the logarithm of heights, as dots, and the log law as a line."""
    left, lowest, height = 2 * (_SIDE + _GAP), law[0] - _MARGIN, law[-1] - law[0] + 2 * _MARGIN
    across = left + 2 * _SIDE * (logarithms - logarithms[0] + 0.2) / (logarithms[-1] - logarithms[0] + 0.4)
    dots, ends = _SIDE * (1 - (speeds - lowest) / height), _SIDE * (1 - (law[[0, -1]] - lowest) / height)
    return [
        Line(left, _SIDE, left + 2 * _SIDE, _SIDE),
        Line(left, 0, left, _SIDE),
        Line(float(across[0]), float(ends[0]), float(across[-1]), float(ends[1])),
        *(Disc(float(x), float(y), 0.08, SKY_BLUE) for x, y in zip(across, dots, strict=True)),
    ]


def _patches(ratios: Array, left: float) -> list[Shape]:
    """The squares of a wall, which the flow crosses from left to right."""
    along, across = ratios.shape
    width, height = _SIDE / along, _SIDE / across
    return [
        Box(left + x * width, z * height, width, height, _colour(float(ratios[x, z])), f"{ratios[x, z]:.2f}")
        for x, z in np.ndindex(along, across)
    ]


def _colour(ratio: float) -> Colour:
    share = min(abs(ratio - 1) / 0.5, 1.0)
    full = ORANGE if ratio > 1 else SKY_BLUE
    red, green, blue = (1 - share * (1 - part) for part in full)
    return red, green, blue
