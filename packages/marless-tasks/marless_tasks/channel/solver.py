"""Large-eddy simulation of the flow between two walls, on a staggered grid in numpy.

Lengths are in half heights h of the channel, velocities in bulk velocities U_b. The axes of arrays ``[ny + 2, nx + 2,
nz + 2]`` are y (from wall to wall), x (the flow) and z (the span), with one ghost cell at each end. The velocities u, v
and w ``[3, ...]`` are at the lower faces of cells along x, y and z. So v is 0 at the indices 1 and ny + 1.

* Space: central differences of second order in divergence form. Without viscosity they keep the kinetic energy.
* Time: the low-storage Runge-Kutta scheme of third order of Williamson, "Low-storage Runge-Kutta schemes", 1980. It is
  stable up to a Courant number of √3 (`courant`).
* Pressure: a Fourier transform along x and z, a cosine transform along y.
* Subgrid stress: Smagorinsky's model. Its length is at most κ times the distance to the wall. Its viscosity is computed
  once in a time step.
* Flow rate: a uniform force keeps the mean of u. The force per volume is the mean stress at both walls over h.

Bytes depend on the FFT and on the matrix product of numpy, which differ between types of processors.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Y, X, Z = range(3)
KAPPA = 0.41
# How much of the last change each stage keeps, and how much of the change it adds to velocities.
_STAGES = ((0.0, 1 / 3), (-5 / 9, 15 / 16), (-153 / 128, 8 / 15))
INSIDE = (..., slice(1, -1), slice(1, -1), slice(1, -1))

# The stress along x and along z at both walls ``[2, 2, nx, nz]``, at the faces of u and w, given velocities.
WallStress = Callable[[Array], Array]


class Grid(NamedTuple):
    """Equal cells in a box that is periodic along x and z and has 2 h from wall to wall."""

    cells: tuple[int, int, int]
    """The numbers of cells ny, nx and nz."""
    sizes: tuple[float, float, float]
    """The sizes of a cell along y, x and z."""
    cosines: Array
    """The cosine transform ``[ny, ny]``."""
    eigenvalues: Array
    """Of the negative Laplacian ``[ny, nx, nz // 2 + 1]``. The constant has 1, as its pressure is 0 anyway."""
    heights: Array
    """The distances ``[ny]`` of the cells' centres from the nearest wall."""

    @classmethod
    def of(cls, nx: int, ny: int, nz: int, length: float = 2 * np.pi, width: float = np.pi) -> "Grid":
        """The grid with so many cells. Length and width are in h."""
        sizes = 2 / ny, length / nx, width / nz
        orders, places = np.arange(ny), np.arange(ny) + 0.5
        cosines = np.sqrt(2 / ny) * np.cos(np.pi / ny * orders[:, None] * places)
        cosines[0] /= np.sqrt(2)
        angles = np.pi * orders / ny, 2 * np.pi * np.arange(nx) / nx, 2 * np.pi * np.arange(nz // 2 + 1) / nz
        along = [(2 - 2 * np.cos(angle)) / size**2 for angle, size in zip(angles, sizes, strict=True)]
        eigenvalues = along[Y][:, None, None] + along[X][:, None] + along[Z]
        eigenvalues[0, 0, 0] = 1.0
        return cls((ny, nx, nz), sizes, cosines, eigenvalues, np.minimum(places, ny - places) * sizes[Y])


def at_rest(grid: Grid) -> Array:
    """Velocities of 0."""
    ny, nx, nz = grid.cells
    return np.zeros((3, ny + 2, nx + 2, nz + 2))


def advance(grid: Grid, velocity: Array, dt: float, viscosity: float, wall: WallStress, smagorinsky: float) -> None:
    """One time step in place: `dt` in h / U_b, `viscosity` in h U_b. `smagorinsky` is the model's constant."""
    nu = viscosities(grid, velocity, viscosity, smagorinsky)
    change = np.zeros_like(velocity[INSIDE])
    for keep, gain in _STAGES:
        change *= keep
        change += dt * rates(grid, velocity, nu, wall(velocity))[INSIDE]
        velocity[INSIDE] += gain * change
        project(grid, velocity)


def rates(grid: Grid, velocity: Array, nu: Array, stress: Array) -> Array:
    """The rates of change of velocities without pressure.

    `nu` is at the centres of cells. `WallStress` describes `stress`. In ghost cells, and for v at walls, the
    result has no meaning.
    """
    u, v, w = velocity
    hy, hx, hz = grid.sizes
    # Four times the fluxes: normal ones at the centres of cells, the others at the edges along z, x and y.
    uu = 8 * nu * _slope_up(u, X, hx) - _sum_up(u, X) ** 2
    vv = 8 * nu * _slope_up(v, Y, hy) - _sum_up(v, Y) ** 2
    ww = 8 * nu * _slope_up(w, Z, hz) - _sum_up(w, Z) ** 2
    at_faces = _sum_down(nu, Y)
    uv = _sum_down(at_faces, X) * _shear(u, v, Y, X, grid) - _sum_down(u, Y) * _sum_down(v, X)
    vw = _sum_down(at_faces, Z) * _shear(v, w, Z, Y, grid) - _sum_down(v, Z) * _sum_down(w, Y)
    uw = _sum_down(_sum_down(nu, X), Z) * _shear(u, w, Z, X, grid) - _sum_down(u, Z) * _sum_down(w, X)
    for flux, along in ((uv, stress[0]), (vw, stress[1])):
        flux[1, 1:-1, 1:-1], flux[-1, 1:-1, 1:-1] = 4 * along[0], -4 * along[1]
    rate = np.empty_like(velocity)
    for number, (x_flux, y_flux, z_flux) in enumerate(((uu, uv, uw), (uv, vv, vw), (uw, vw, ww))):
        # A velocity is between two centres along its own axis, and between two edges along the others.
        total = (_slope_down if number == 0 else _slope_up)(x_flux, X, 4 * hx)
        total += (_slope_down if number == 1 else _slope_up)(y_flux, Y, 4 * hy)
        total += (_slope_down if number == 2 else _slope_up)(z_flux, Z, 4 * hz)
        rate[number] = total
    rate[0] += stress[0].mean()  # the force: h is 1
    return rate


def viscosities(grid: Grid, velocity: Array, viscosity: float, constant: float) -> Array:
    """The viscosity at centres of cells: of the fluid, and of Smagorinsky's model with this constant."""
    u, v, w = velocity
    hy, hx, hz = grid.sizes
    nu: Array = np.full_like(u, viscosity)
    if not constant:
        return nu
    squares = 2 * (_slope_up(u, X, hx) ** 2 + _slope_up(v, Y, hy) ** 2 + _slope_up(w, Z, hz) ** 2)
    for shear, axis, second_axis in (
        (_shear(u, v, Y, X, grid), X, Y),
        (_shear(v, w, Z, Y, grid), Y, Z),
        (_shear(u, w, Z, X, grid), X, Z),
    ):
        squares += (_sum_up(_sum_up(shear, axis), second_axis) / 4) ** 2
    length = np.minimum(constant * np.prod(grid.sizes) ** (1 / 3), KAPPA * grid.heights)
    nu[INSIDE] += (length**2)[:, None, None] * np.sqrt(squares[INSIDE])
    nu[:, 0], nu[:, -1] = nu[:, -2], nu[:, 1]
    nu[..., 0], nu[..., -1] = nu[..., -2], nu[..., 1]
    nu[0], nu[-1] = nu[1], nu[-2]
    return nu


def project(grid: Grid, velocity: Array) -> None:
    """Takes the gradient of a pressure from velocities, in place, so that no cell gains or loses volume."""
    _fill(velocity)
    ny, nx, nz = grid.cells
    sources = (grid.cosines @ divergence(grid, velocity).reshape(ny, nx * nz)).reshape(grid.cells)
    spectrum = np.fft.rfft2(sources)
    spectrum /= -grid.eigenvalues
    pressure = (grid.cosines.T @ np.fft.irfft2(spectrum, s=(nx, nz)).reshape(ny, nx * nz)).reshape(grid.cells)
    u, v, w = velocity[INSIDE]
    u -= (pressure - np.roll(pressure, 1, X)) / grid.sizes[X]
    v[1:] -= (pressure[1:] - pressure[:-1]) / grid.sizes[Y]
    w -= (pressure - np.roll(pressure, 1, Z)) / grid.sizes[Z]
    _fill(velocity)


def divergence(grid: Grid, velocity: Array) -> Array:
    """The volume ``[ny, nx, nz]`` that each cell gains per time, over its volume."""
    u, v, w = velocity
    hy, hx, hz = grid.sizes
    gain: Array = _slope_up(u, X, hx) + _slope_up(v, Y, hy) + _slope_up(w, Z, hz)
    inside: Array = gain[INSIDE]
    return inside


def courant(grid: Grid, velocity: Array, dt: float) -> float:
    """The sum over axes of the highest speed times `dt` over the size of a cell."""
    hy, hx, hz = grid.sizes
    return float(dt * (np.abs(velocity).max(axis=(1, 2, 3)) / (hx, hy, hz)).sum())


def _fill(velocity: Array) -> None:
    """Writes the ghost cells: periodic along x and z. Beyond a wall, u and w have the slope of the next two cells."""
    velocity[1, 1] = 0.0
    velocity[:, :, 0], velocity[:, :, -1] = velocity[:, :, -2], velocity[:, :, 1]
    velocity[..., 0], velocity[..., -1] = velocity[..., -2], velocity[..., 1]
    velocity[:, 0] = 2 * velocity[:, 1] - velocity[:, 2]
    velocity[:, -1] = 2 * velocity[:, -2] - velocity[:, -3]
    velocity[1, -1] = 0.0


def _shear(velocity: Array, second: Array, axis: int, second_axis: int, grid: Grid) -> Array:
    """The slope of a velocity along an axis plus the slope of the second one along the second axis, at edges."""
    slope = _slope_down(velocity, axis, grid.sizes[axis])
    slope += _slope_down(second, second_axis, grid.sizes[second_axis])
    return slope


def _sum_up(array: Array, axis: int) -> Array:
    """The sum of each entry and its upper neighbour along an axis."""
    return _with_neighbour(np.add, array, axis, upward=True)[0]


def _sum_down(array: Array, axis: int) -> Array:
    """The sum of each entry and its lower neighbour along an axis."""
    return _with_neighbour(np.add, array, axis, upward=False)[0]


def _slope_up(array: Array, axis: int, size: float) -> Array:
    """The slope between each entry and its upper neighbour along an axis."""
    slope, part = _with_neighbour(np.subtract, array, axis, upward=True)
    part *= 1 / size
    return slope


def _slope_down(array: Array, axis: int, size: float) -> Array:
    """The slope between each entry and its lower neighbour along an axis."""
    slope, part = _with_neighbour(np.subtract, array, axis, upward=False)
    part *= 1 / size
    return slope


def _with_neighbour(operation: np.ufunc, array: Array, axis: int, upward: bool) -> tuple[Array, Array]:
    """The operation on each upper and lower neighbour along an axis, and the part of the result that is not 0.

    It treats the array as flat, which is three times as fast as slices of each axis. So ghost cells get
    values that mean nothing.
    """
    stride = array.strides[axis] // array.itemsize
    result = np.empty_like(array)
    flat, target = array.reshape(-1), result.reshape(-1)
    part, rest = (target[:-stride], target[-stride:]) if upward else (target[stride:], target[:stride])
    operation(flat[stride:], flat[:-stride], out=part)
    rest.fill(0)
    return result, part
