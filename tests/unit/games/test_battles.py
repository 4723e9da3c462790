"""The rules of battles: traps of SMAX as scenes that are calculated by hand."""

import numpy as np
import pytest
from battle_scenes import FIRST_ENEMY, LEFT, STOP, battle, near, place_of, stepped
from built_kernels import needs_kernels

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask

pytestmark = needs_kernels


def test_a_unit_shoots_while_it_dies():
    environment = battle(positions=near(unit_0=(10, 10), unit_3=(12, 10)), dead=(1, 2, 4, 5))
    environment.arrays["health"][0, [0, 3]] = 5
    step = stepped(environment, FIRST_ENEMY, STOP, STOP)
    # Both sides are dead: no victory, and the enemy lost 5 of 45 points of one of three units.
    assert step.rewards.tolist() == [[pytest.approx(5 / 45 / 3), 0, 0]]
    assert step.ended[0] and not step.truncated[0] and step.env_metrics["win"][0] == 0
    assert step.terminated.tolist() == [[True, False, False]] and not step.final.alive.any()


def test_a_victory_is_worth_one_and_terminates_all():
    environment = battle(positions=near(unit_0=(10, 10), unit_3=(12, 10)), dead=(4, 5))
    environment.arrays["health"][0, 3] = 9
    step = stepped(environment, FIRST_ENEMY, STOP, STOP)
    assert step.rewards.sum() == pytest.approx(1 + 9 / 45 / 3) and len({*step.rewards[0]}) == 1
    assert step.env_metrics["win"][0] == 1 and step.terminated.all()
    assert not step.final.values[0].any() and step.final.masks[0].sum() == step.final.masks[0][..., STOP].sum() == 3


@pytest.mark.parametrize(("dead", "reward"), [((4, 5), 2), ((1, 2), -2)])
def test_self_play_pays_for_the_outcome_alone(dead, reward):
    positions = near(unit_0=(10, 10), unit_3=(12, 10))
    environment = battle(positions=positions, dead=dead, use_self_play_reward=True, won_battle_bonus=2.0)
    loser = 3 if reward > 0 else 0
    environment.arrays["health"][0, loser] = 1
    environment.arrays["cooldown"][0, 3 - loser] = 0
    environment.arrays["cooldown"][0, loser] = 9
    step = stepped(environment, FIRST_ENEMY, STOP, STOP)
    assert step.rewards.sum() == reward and step.ended[0]


def test_the_dead_leave_their_share_to_the_living():
    environment = battle(positions=near(unit_0=(10, 10), unit_3=(12, 10)), dead=(1,), enemy_shoots=False)
    step = stepped(environment, FIRST_ENEMY, STOP, STOP)
    assert step.rewards[0].tolist() == [pytest.approx(9 / 45 / 3 / 2), 0, pytest.approx(9 / 45 / 3 / 2)]


def test_one_step_more_than_the_limit_is_played():
    environment = battle(max_steps=2)
    assert [bool(stepped(environment, STOP, STOP, STOP).truncated[0]) for _ in range(4)] == [False, False, True, False]
    assert environment.spec.horizon == 3


@pytest.mark.parametrize("walls_cause_death", [True, False])
def test_walls_kill(walls_cause_death):
    environment = battle(positions=near(unit_0=(0.1, 16)), walls_cause_death=walls_cause_death)
    step = stepped(environment, LEFT, STOP, STOP)
    assert step.observation.alive[0].tolist() == [not walls_cause_death, True, True]
    assert place_of(environment, 0) == (0, 16)


def test_a_push_off_the_map_kills_later():
    environment = battle(positions=near(unit_0=(0.05, 16), unit_1=(0.1, 16)), world_steps_per_env_step=1)
    assert stepped(environment, STOP, STOP, STOP).observation.alive[0, 0]
    assert place_of(environment, 0)[0] < 0
    assert not stepped(environment, STOP, STOP, STOP).observation.alive[0, 0]


def test_overlapping_units_push_each_other_away():
    environment = battle(positions=near(unit_0=(10, 10), unit_1=(10, 10.5)), world_steps_per_env_step=1)
    stepped(environment, STOP, STOP, STOP)
    # Radii of 0.375: the overlap is 0.75 / 0.5 - 1, and half of it times the distance moves each.
    assert place_of(environment, 0) == (10, pytest.approx(9.875, abs=1e-5))
    assert place_of(environment, 1) == (10, pytest.approx(10.625, abs=1e-5))


@pytest.mark.parametrize("earlier_rules", [False, True])
def test_by_earlier_rules_dead_units_collide(earlier_rules):
    positions = near(unit_0=(10, 10), unit_1=(10, 10.5), unit_5=(20, 20))
    environment = battle(positions=positions, dead=(1, 5), earlier_rules=earlier_rules, world_steps_per_env_step=1)
    stepped(environment, STOP, STOP, STOP)
    assert (place_of(environment, 0) == (10, 10)) != earlier_rules
    # A dead enemy walks up or to the right by these rules, towards its goal from the corner.
    assert (place_of(environment, 5) == (20, 20)) != earlier_rules


def test_a_shot_sets_the_cooldown_within_its_deviation():
    cooldowns = []
    for seed in range(200):
        environment = battle(positions=near(unit_0=(10, 10), unit_3=(12, 10)), world_steps_per_env_step=1)
        environment.arrays["keys"][0] = seed
        stepped(environment, FIRST_ENEMY, STOP, STOP)
        cooldowns.append(environment.arrays["cooldown"][0, 0])
    deviations = np.array(cooldowns) - 0.61
    assert deviations.min() >= -1 / 16 and deviations.max() < 2 / 16
    # Uniform: the mean has the standard error 3 / 16 / sqrt(12 * 200).
    assert abs(deviations.mean() - 1 / 32) < 4 * 3 / 16 / np.sqrt(12 * 200)


@pytest.mark.parametrize(("cooldown", "distance", "lost"), [(0.0, 4.99, 9), (0.01, 4.99, 0), (0.0, 5.01, 0)])
def test_only_ready_units_in_range_hit(cooldown, distance, lost):
    positions = near(unit_0=(10, 10), unit_3=(10 + distance, 10))
    environment = battle(positions=positions, world_steps_per_env_step=1, enemy_shoots=False)
    environment.arrays["cooldown"][0, 0] = cooldown
    stepped(environment, FIRST_ENEMY, STOP, STOP)
    assert environment.arrays["health"][0, 3] == 45 - lost


def test_ranges_end_where_rounded_distances_do():
    (traits,) = [registry.make(EnvTask(name="smax/3m"), 1)._inputs["traits"]]
    for squares, radii in ((traits[2], (5, 6, 6, 2, 2, 5)), (traits[3], (9, 10, 10, 9, 8, 9))):
        assert (np.sqrt(squares) >= radii).all()
        assert (np.sqrt(np.nextafter(squares, np.float32(0))) < radii).all()
