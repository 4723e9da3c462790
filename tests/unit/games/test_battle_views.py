"""Observations and pictures of battles."""

import numpy as np
import pytest
from battle_scenes import COOLDOWN, FIRST_ENEMY, SHOWN, STOP, TARGET, battle, near, observed, others_of, stepped
from built_kernels import needs_kernels

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.scene import Box, Disc, fade

pytestmark = needs_kernels


def test_cooldowns_sink_and_are_shown_clipped():
    environment = battle()
    stepped(environment, STOP, STOP, STOP)
    assert environment.arrays["cooldown"][0, 0] == -8 / 16
    seen = observed(environment)
    assert seen.values[0][0, 0, -7] == 0 and seen.state[0, 3] == -8 / 16


def test_masks_name_the_living_enemies_in_range():
    environment = battle(positions=near(unit_0=(10, 10), unit_3=(12, 10), unit_4=(10, 14.9), unit_5=(8, 10)), dead=(5,))
    masks = observed(environment).masks[0][0]
    assert masks[0].tolist() == [True] * 5 + [True, True, False]
    environment.arrays["health"][0, 0] = 0
    assert observed(environment).masks[0][0, 0].tolist() == [False] * 4 + [True] + [False] * 3
    assert not observed(environment).values[0][0, 0].any()


def test_enemies_number_allies_from_the_last():
    environment = battle(positions=near(unit_0=(10, 10), unit_3=(12, 10)))
    stepped(environment, STOP, STOP, STOP)
    # Ally 0 of three is the enemy's third target: 5 + 2, of at most 7.
    assert environment.arrays["orders"][0, 3] == FIRST_ENEMY + 2
    assert others_of(environment)[2, TARGET] == 1


def test_targets_are_shares_of_each_sides_actions():
    positions = [(10, 10), (5, 27), (5, 16), (5, 22), (2, 5), (12, 10), *[(27, 5 + 4 * i) for i in range(5)]]
    environment = battle("5m_vs_6m", positions)
    stepped(environment, FIRST_ENEMY, STOP, STOP, STOP, STOP)
    environment.arrays["x"][0, 1:2], environment.arrays["y"][0, 1:2] = 11, 10
    shown = others_of(environment, 1)
    # An ally has 6 targets, so 10 is its last action. An enemy has 5, and ally 0 is the last of them.
    assert shown[0, TARGET] == pytest.approx(5 / 10) and shown[4, TARGET] == 1
    hidden = battle("5m_vs_6m", positions, see_enemy_actions=False)
    stepped(hidden, FIRST_ENEMY, STOP, STOP, STOP, STOP)
    hidden.arrays["x"][0, 1:2], hidden.arrays["y"][0, 1:2] = 11, 10
    assert others_of(hidden, 1)[0, TARGET] == pytest.approx(5 / 10) and not others_of(hidden, 1)[4, 3:6].any()


def test_positions_are_shown_as_shares_of_sight():
    environment = battle(positions=near(unit_0=(10, 10), unit_3=(10, 18.9), unit_4=(19.1, 10)))
    environment.arrays["health"][0, 3] = 15
    environment.arrays["cooldown"][0, 3] = 0.305
    shown = others_of(environment)
    # Marines see nine units far.
    np.testing.assert_allclose(shown[2, :8], [1 / 3, 0, 8.9 / 9, 0, 0, 0, 0.5, 1], atol=1e-6)
    assert not shown[3].any() and not shown[2, 8:].any()


def test_positions_are_shown_as_shares_of_the_map():
    environment = battle(map_width=64)
    environment.arrays["cooldown"][0, 0] = 0.61 * 2
    seen = observed(environment)
    np.testing.assert_allclose(seen.values[0][0, 0, -10:], [1, 5 / 64, 5 / 32, 1, 1, 0, 0, 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(seen.state[0, :10], [1, 5 / 64, 5 / 32, 1.22, 1, 0, 0, 0, 0, 0], atol=1e-6)
    # Then sides and kinds.
    assert seen.state[0, 60:].tolist() == [0, 0, 0, 1, 1, 1] + [0] * 6


def test_the_earlier_rules_show_seconds_and_numbers():
    environment = battle(positions=near(unit_0=(10, 10), unit_3=(12, 10)), earlier_rules=True)
    stepped(environment, STOP, STOP, STOP)
    environment.arrays["cooldown"][0, 3] = -2
    assert others_of(environment)[2, [TARGET, COOLDOWN]].tolist() == [FIRST_ENEMY + 2, -2]


def cone(values, section, place):
    start = (2 * section + place) * SHOWN
    return values[start : start + SHOWN]


def test_cones_show_two_units_of_a_section():
    # Ally 1 looks. Sections begin at the left, against the clock, so 16 is right of it and a little up.
    positions = [(15, 16.1), (10, 16), (14, 16.1), (12, 16.1), (13, 16.1), (10.1, 12)]
    values = observed(battle(positions=positions, dead=(2,), observation_type="conic")).values[0][0, 1]
    assert values.size == 64 * SHOWN + 10
    first, second = (cone(values, 16, place) for place in (0, 1))
    # Ally 0 is never shown, the dead ally 2 is, then enemies: two of a section.
    np.testing.assert_allclose(first[:3], [0, 4 / 9, 0.1 / 9], atol=1e-6)
    np.testing.assert_allclose(second[:3], [1, 2 / 9, 0.1 / 9], atol=1e-6)
    np.testing.assert_allclose(cone(values, 8, 0)[:3], [1, 0.1 / 9, -4 / 9], atol=1e-6)
    assert np.count_nonzero(values[: 64 * SHOWN].reshape(-1, SHOWN).any(axis=1)) == 3


@pytest.mark.parametrize(
    ("name", "allies", "enemies"),
    [("3m", 3, 3), ("2s3z", 5, 5), ("5m_vs_6m", 5, 6), ("27m_vs_30m", 27, 30), ("smacv2_10_units", 10, 10)],
)
def test_sizes_are_smaxs(name, allies, enemies):
    spec = registry.spec(EnvTask(name=f"smax/{name}"))
    (kind,) = spec.classes
    assert spec.agents == tuple(f"ally_{i}" for i in range(allies))
    # 13 features of every other unit and 10 of the agent itself. Four moves, stop, and every enemy.
    assert (kind.observation_size, kind.actions) == (13 * (allies - 1 + enemies) + 10, 5 + enemies)
    # Of all units 10 features, side and kind.
    assert (spec.state_size, spec.horizon, spec.masked) == (12 * (allies + enemies), 101, True)


def test_a_picture_fades_the_dead():
    scene = battle(dead=(4,)).render(0)
    dead, *alive = [shape for shape in scene.shapes if isinstance(shape, Disc)]
    # From the lower left corner, the dead unit first.
    np.testing.assert_allclose([(disc.x, 32 - disc.y) for disc in (dead, *alive)], near()[[4, 0, 1, 2, 3, 5]])
    ally, enemy = alive[0].colour, alive[-1].colour
    assert [disc.colour for disc in alive] == [ally] * 3 + [enemy] * 2 and dead.colour == fade(enemy) != ally
    # A bar of health, whole at first, for every unit alive.
    bars = [shape for shape in scene.shapes if isinstance(shape, Box)]
    assert len(bars) == 2 * 5 and all(bar.width == 2 * alive[0].radius for bar in bars)
