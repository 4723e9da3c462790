"""The enemies' script, and where battles begin."""

import numpy as np
from battle_scenes import DOWN, LEFT, RIGHT, STOP, UP, battle, near, stepped
from built_kernels import needs_kernels

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask

pytestmark = needs_kernels


def test_the_script_keeps_its_target_in_range():
    environment = battle(positions=near(unit_0=(10, 10), unit_1=(11, 10), unit_3=(13, 10)))
    stepped(environment, STOP, STOP, STOP)
    assert environment.arrays["targets"][0, 3] == 1  # the nearest
    environment.arrays["x"][0, :2] = 12.5, 9
    stepped(environment, STOP, STOP, STOP)
    assert environment.arrays["targets"][0, 3] == 1
    environment.arrays["x"][0, 1] = 7
    stepped(environment, STOP, STOP, STOP)
    assert environment.arrays["targets"][0, 3] == 0


def test_the_script_can_aim_at_random():
    targets = set()
    for seed in range(20):
        environment = battle(positions=near(unit_0=(10, 10), unit_1=(11, 10), unit_3=(13, 10)), attack_mode="random")
        environment.arrays["keys"][0] = seed
        stepped(environment, STOP, STOP, STOP)
        targets.add(int(environment.arrays["targets"][0, 3]))
    assert targets == {0, 1}


def test_the_script_follows_allies_or_goes_opposite():
    moves = set()
    for seed in range(20):
        positions = near(unit_0=(16, 10), unit_1=(22, 16), unit_3=(16, 16))
        environment = battle(positions=positions, world_steps_per_env_step=1)
        environment.arrays["keys"][0] = seed
        stepped(environment, STOP, STOP, STOP)
        moves.add(int(environment.arrays["orders"][0, 3]))
    assert moves == {RIGHT, DOWN}
    environment = battle()
    environment.arrays["goal_x"][0, 3:6], environment.arrays["goal_y"][0, 3:6] = 5, (27, 5, 16)
    stepped(environment, STOP, STOP, STOP)
    # Equal distances along both axes: the first of up, right, down and left.
    assert environment.arrays["orders"][0, 3:6].tolist() == [UP, DOWN, LEFT]


def test_goals_are_opposite_first_positions():
    environment = registry.make(EnvTask(name="smax/3m"), 5)
    environment.reset(np.random.default_rng(3))
    for axis in "xy":
        goal, first = (environment.arrays[name][:, 3:6] for name in (f"goal_{axis}", axis))
        np.testing.assert_allclose(goal, 32 - first, atol=1e-5)


def test_an_enemy_that_does_not_shoot_follows():
    environment = battle(positions=near(unit_0=(10, 10), unit_3=(12, 10)), enemy_shoots=False)
    stepped(environment, STOP, STOP, STOP)
    assert environment.arrays["orders"][0, 3] == LEFT and environment.arrays["health"][0, 0] == 45


def test_drawn_armies_are_equal():
    environment = registry.make(EnvTask(name="smax/smacv2_5_units"), 4000)
    environment.reset(np.random.default_rng(2))
    kinds, x, y = (environment.arrays[name][:, :10] for name in ("kinds", "x", "y"))
    assert (kinds[:, :5] == kinds[:, 5:]).all()
    # Six kinds, equally often: 20,000 draws, four standard errors.
    assert np.abs(np.bincount(kinds[:, :5].ravel(), minlength=6) / 20000 - 1 / 6).max() < 4 * 0.0027
    # Half of the starts are mirrored. In half of the others allies are inside.
    is_central = np.hypot(x - 16, y - 16) < 4
    for side in (slice(5), slice(5, 10)):
        assert abs(is_central[:, side].all(axis=1).mean() - 0.25) < 4 * 0.0069
    assert ((x < 0) | (x > 32) | (y < 0) | (y > 32)).any()


def test_starts_of_fixed_armies_are_in_two_squares():
    environment = registry.make(EnvTask(name="smax/3s5z"), 500)
    environment.reset(np.random.default_rng(2))
    x, y = (environment.arrays[name][:, :16] for name in "xy")
    # Pushes among eight units of radius 0.5 move them by less than two.
    assert np.abs(x - np.repeat([8, 24], 8)).max() < 4 and np.abs(y - 16).max() < 4
    assert abs(x[:, :8].mean() - 8) < 4 * 4 / np.sqrt(12 * 4000)
    assert (environment.arrays["kinds"][0, :16] == [2, 2, 2, 3, 3, 3, 3, 3] * 2).all()
