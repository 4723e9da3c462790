"""The solver of `channel/wall` against theory: conservation, laminar flow, exact and manufactured solutions."""

import numpy as np
import pytest

from benchmarks.channel.neutral import law_line, neutral_line
from marless_tasks.channel import fields, solver
from marless_tasks.channel.solver import INSIDE, Grid
from marless_tasks.channel.walls import Channel, equilibrium, log_law_stress

# The axes y, x, z of the velocities u, v, w.
AXES = (1, 0, 2)


def no_stress(velocity):
    return np.zeros((2, 2, *velocity[0, 0, 1:-1, 1:-1].shape))


@pytest.fixture
def grid():
    return Grid.of(8, 10, 6)


@pytest.fixture
def flow(grid):
    """Random velocities without divergence. Their bulk velocity is about 1."""
    velocity = solver.at_rest(grid)
    velocity[INSIDE] = 0.3 * np.random.default_rng(1).standard_normal((3, *grid.cells))
    velocity[0] += 1
    solver.project(grid, velocity)
    return velocity


def no_slip(velocity):
    """The stress of the slope between the wall and the centre of the first of 24 cells, at the viscosity 1."""
    return 24 * velocity[::2, [1, -2], 1:-1, 1:-1]


def test_laminar_flow_has_stress_of_the_parabola():
    grid = Grid.of(4, 24, 4)
    velocity = solver.at_rest(grid)
    velocity[0] = 1
    for _ in range(200):
        solver.advance(grid, velocity, 0.004, 1.0, no_slip, 0.0)
    stress = no_slip(velocity)[0].mean()
    assert stress == pytest.approx(3, rel=0.005)  # 3 U_b / h times the viscosity
    # A shifted parabola solves the difference equations, as the first velocity is half a cell from the wall.
    assert stress == pytest.approx(3 / (1 + grid.sizes[0] ** 2 / 2), rel=1e-6)


def test_momentum_changes_by_the_stress_at_walls_alone(grid, flow):
    stress = np.random.default_rng(2).random((2, 2, 8, 6))
    nu = solver.viscosities(grid, flow, 0.01, 0.2)
    along, _, across = solver.rates(grid, flow, nu, stress)[INSIDE].mean(axis=(1, 2, 3))
    assert along == pytest.approx(0, abs=1e-14)  # the force is the mean drag
    assert across == pytest.approx(-stress[1].mean(), rel=1e-13)


def test_steps_keep_volume_and_the_bulk_velocity(grid, flow):
    bulk = flow[0][INSIDE].mean()
    for _ in range(20):
        solver.advance(grid, flow, 0.02, 1e-3, equilibrium(grid, 1e-3), 0.1)
    assert np.abs(solver.divergence(grid, flow)).max() <= 1e-12
    assert flow[0][INSIDE].mean() == pytest.approx(bulk, abs=1e-13)


def test_convection_keeps_kinetic_energy(grid, flow):
    rate = solver.rates(grid, flow, np.zeros_like(flow[0]), no_stress(flow))
    assert (flow * rate)[INSIDE].sum() == pytest.approx(0, abs=1e-11)


def test_kinetic_energy_loss_is_of_third_order(grid, flow):
    lost = []
    for steps in (40, 80):
        velocity = flow.copy()
        for _ in range(steps):
            solver.advance(grid, velocity, 1 / steps, 0.0, no_stress, 0.0)
        lost.append((flow[INSIDE] ** 2).mean() - (velocity[INSIDE] ** 2).mean())
    assert lost[0] / lost[1] == pytest.approx(8, rel=0.1)


def vortices(grid, part, time):
    """Vortices of Taylor and Green in the plane of u and the velocity `part`, which the bulk velocity carries along.

    They decay as exp(-(k² + l²) t / Re), here with k = 1 and Re = 10. No stress acts between them and the walls.
    """
    axis = AXES[part]
    number, size = (np.pi / 2, 2.0)[axis == 2], grid.sizes[axis]
    along = (np.arange(grid.cells[1]) * grid.sizes[1])[:, None]
    across = np.expand_dims(np.arange(grid.cells[axis]) * size, (1, 2) if axis == 0 else 0)
    decay = 0.3 * np.exp(-0.1 * (1 + number**2) * time)
    velocity = solver.at_rest(grid)
    velocity[0][INSIDE] = 1 + decay * number * np.sin(along - time) * np.cos(number * (across + size / 2))
    velocity[part][INSIDE] = -decay * np.cos(along + grid.sizes[1] / 2 - time) * np.sin(number * across)
    return velocity


@pytest.mark.parametrize("part", [1, 2])
def test_advected_vortices_are_of_second_order(part):
    errors = []
    for cells in (12, 24):
        grid = Grid.of(cells, *((cells, 4) if part == 1 else (4, cells)))
        velocity = vortices(grid, part, 0.0)
        solver.project(grid, velocity)
        for _ in range(25):
            solver.advance(grid, velocity, 0.02, 0.1, no_stress, 0.0)
        errors.append(np.sqrt(((velocity - vortices(grid, part, 0.5))[INSIDE] ** 2).mean()))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)


# A flow of shear and waves, periodic along x and z.
WAVES = (
    lambda y, x, z: 2 * y + 0.3 * np.sin(x) * np.cos(2 * z) * np.cos(y),
    lambda y, x, z: 0.2 * np.cos(x + 0.5) * np.sin(2 * z) * np.cos(1.5 * y),
    lambda y, x, z: 0.3 * np.sin(x + 0.3) * np.cos(2 * z + 0.1) * (1 + 0.2 * y),
)
LENGTH = 0.05


def slope(function, axis):
    """The derivative by differences of fourth order."""

    def at(*point):
        near, far = (
            [function(*(part + sign * step * (place == axis) for place, part in enumerate(point))) for sign in (1, -1)]
            for step in (5e-3, 1e-2)
        )
        return (8 * (near[0] - near[1]) - (far[0] - far[1])) / 6e-2

    return at


def exact_rate(number, *point):
    """∂/∂x_j of ``2 (1 / Re + l² |S|) S_ij - u_i u_j``, without pressure."""

    def twice_strain(i, j, *place):
        return slope(WAVES[i], AXES[j])(*place) + slope(WAVES[j], AXES[i])(*place)

    def viscosity(*place):
        return 0.01 + LENGTH**2 * np.sqrt(sum(twice_strain(i, j, *place) ** 2 for i in range(3) for j in range(3)) / 2)

    def flux(j):
        return lambda *place: (
            viscosity(*place) * twice_strain(number, j, *place) - WAVES[number](*place) * WAVES[j](*place)
        )

    return sum(slope(flux(j), AXES[j])(*point) for j in range(3))


def faces(grid, number):
    """The coordinates of the velocity `number` with ghost cells ``[ny + 2, nx + 2, nz + 2]``, along y, x and z."""
    axes = zip(grid.sizes, (1, 0, 0), strict=True)
    places = [
        (np.arange(count + 2) - 0.5) * size - start for count, (size, start) in zip(grid.cells, axes, strict=True)
    ]
    places[AXES[number]] -= grid.sizes[AXES[number]] / 2
    return np.meshgrid(*places, indexing="ij")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_manufactured_flow_rates_are_of_second_order(number):
    """With convection, viscosity and the subgrid model, away from walls."""
    errors = []
    for cells in (12, 24):
        grid = Grid.of(cells, cells, cells)
        velocity = np.stack([wave(*faces(grid, place)) for place, wave in enumerate(WAVES)])
        nu = solver.viscosities(grid, velocity, 0.01, LENGTH / np.prod(grid.sizes) ** (1 / 3))
        rate = solver.rates(grid, velocity, nu, no_stress(velocity))[number]
        points = [axis[cells // 4 : -cells // 4, 1:-1, 1:-1] for axis in faces(grid, number)]
        error = rate[cells // 4 : -cells // 4, 1:-1, 1:-1] - exact_rate(number, *points)
        errors.append(np.sqrt((error**2).mean()))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("reynolds", [2000, 1e6])
def test_log_law_through_own_profile_has_its_stress(reynolds):
    channel, heights = Channel.at(reynolds), np.array([0.05, 0.1])
    for height, speed in zip(heights, channel.profile(heights), strict=True):
        assert log_law_stress(speed, height, channel.viscosity) == pytest.approx(channel.stress, rel=1e-12)


def test_bulk_velocity_is_mean_of_profile():
    channel, cells = Channel.at(8000), 200_000
    heights = (np.arange(cells) + 0.5) / cells
    assert channel.profile(heights).mean() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("height", [200, 1e5])
def test_log_law_actions_are_neutral_on_its_line(height):
    slopes = np.linspace(1.5, 3.5, 9)

    def log_law(observations):
        speeds = observations[:, 0] * np.log(height) + observations[:, 1]
        return log_law_stress(np.maximum(speeds, 0), 1.0, 1 / height)

    assert neutral_line(log_law, slopes) == pytest.approx(law_line(slopes, height), abs=1e-9)


def test_policy_that_never_acts_has_no_neutral_line():
    assert np.isnan(neutral_line(lambda observations: np.ones(len(observations)), np.array([2.0]))).all()


@pytest.mark.conformance
def test_the_equilibrium_model_reaches_the_log_law():
    """The stress of this model is within 5 % of the log law's in a coarse channel, and turbulence stays."""
    grid, channel = Grid.of(32, 24, 24), Channel.at(10_000)
    velocity = fields.start(grid, channel, np.random.default_rng(0))
    wall, stresses, profiles, fluctuations = equilibrium(grid, channel.viscosity), [], [], []
    for step in range(2000):
        solver.advance(grid, velocity, 0.05, channel.viscosity, wall, fields.SMAGORINSKY)
        if step >= 600 and step % 10 == 0:
            stresses.append(wall(velocity)[0].mean())
            profiles.append(velocity[0][INSIDE].mean(axis=(1, 2)))
            fluctuations.append(velocity[0][INSIDE].std(axis=(1, 2)))
    assert np.mean(stresses) / channel.stress == pytest.approx(1, abs=0.05)
    assert np.mean(profiles, axis=0)[2:-2] == pytest.approx(channel.profile(grid.heights)[2:-2], rel=0.05)
    assert np.mean(fluctuations) > channel.speed
