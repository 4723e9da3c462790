"""Turbulent fields at the start of episodes.

`fields.npz` has four fields of velocities minus the log law, in units of u_τ. Each has 32 x 24 x 24 cells and one byte
for each number. They were taken 50 h / U_b apart at Re_τ = 4,200 with the equilibrium wall model. At these sizes of
cells the viscosity of the fluid does not reach the eddies, so one field serves every Reynolds number. Each start is
mirrored and moved along x and z at random, which are symmetries of the flow. ``python -m marless_tasks.channel.fields
FILE`` computes such a file in two minutes.
"""

import sys
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from marless_tasks.channel.solver import INSIDE, Array, Grid, advance, at_rest, project
from marless_tasks.channel.walls import Channel, equilibrium

SMAGORINSKY = 0.1
_FIELDS, _APART, _BEFORE, _DT = 4, 50, 150, 0.05


def start(grid: Grid, channel: Channel, rng: np.random.Generator) -> Array:
    """Velocities of a turbulent flow with the bulk velocity 1. Another grid takes the nearest stored cells."""
    bytes_, scales = _stored()
    number, mirrored, flipped = (int(rng.integers(most)) for most in (len(bytes_), 2, 2))
    field = bytes_[number] * scales[number]
    if mirrored:
        field = _mirror(field, part=2, axis=3)
    if flipped:
        field = _mirror(field, part=1, axis=1)
    for axis, count in enumerate(grid.cells, start=1):
        stored_count = field.shape[axis]
        moved = 0 if axis == 1 else int(rng.integers(stored_count))
        field = np.take(field, (np.arange(count) * stored_count // count + moved) % stored_count, axis=axis)
    return _around(grid, channel, channel.speed * field)


def _around(grid: Grid, channel: Channel, fluctuations: Array) -> Array:
    """The log law with fluctuations, without divergence, at the bulk velocity 1."""
    velocity = at_rest(grid)
    velocity[INSIDE] = fluctuations
    velocity[0, 1:-1] += channel.profile(grid.heights)[:, None, None]
    velocity[0] += 1 - velocity[0][INSIDE].mean()
    project(grid, velocity)
    return velocity


def _mirror(field: Array, part: int, axis: int) -> Array:
    """The field in a mirror across an axis. The velocity `part` is at faces there, and changes its sign."""
    image: Array = np.flip(field, axis).copy()
    image[part] = -np.roll(image[part], 1, axis - 1)
    return image


@cache
def _stored() -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    with files(__package__).joinpath("fields.npz").open("rb") as file, np.load(file) as stored:
        return stored["fields"], stored["scales"]


def _compute(file: str, seed: int = 100) -> None:
    """Write the file."""
    grid, channel = Grid.of(32, 24, 24), Channel.at(4200)
    wall = equilibrium(grid, channel.viscosity)
    noise = np.random.Generator(np.random.Philox(seed)).standard_normal((3, *grid.cells))
    velocity = _around(grid, channel, 5 * channel.speed * noise)
    fields = []
    for number in range(_FIELDS):
        for _ in range(round((_APART if number else _BEFORE) / _DT)):
            advance(grid, velocity, _DT, channel.viscosity, wall, SMAGORINSKY)
        field = velocity[INSIDE].copy()
        field[0] -= channel.profile(grid.heights)[:, None, None]
        fields.append(field / channel.speed)
    scales = np.array([np.abs(field).max() / 127 for field in fields])
    rounded = np.round(np.stack(fields) / scales[:, None, None, None, None]).astype(np.int8)
    np.savez_compressed(file, fields=rounded, scales=scales)


if __name__ == "__main__":
    _compute(sys.argv[1])
