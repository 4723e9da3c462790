"""Exchanging two allies of a battle exchanges their features in observations."""

from itertools import combinations

import numpy as np
import pytest
from battle_scenes import FIRST_ENEMY, TARGET, observed
from built_kernels import needs_kernels
from compiled_games import played

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.spec_check import fault_of

# Two stalkers and three zealots on each side.
MAP, ALLIES, UNITS, ENVS = "2s3z", 5, 10, 4


def exchange(arrays, one, other):
    """Exchanges two allies, and with them the targets of the enemies."""
    units = np.arange(UNITS)
    units[[one, other]] = other, one
    for array in arrays.values():
        if array.ndim > 1:
            array[:, :UNITS] = array[:, units]
    # Enemies number the allies from the last to the first.
    numbers = np.arange(FIRST_ENEMY + ALLIES)
    numbers[FIRST_ENEMY:] = FIRST_ENEMY + ALLIES - 1 - units[:ALLIES][::-1]
    arrays["orders"][:, ALLIES:UNITS] = numbers[arrays["orders"][:, ALLIES:UNITS]]


@needs_kernels
@pytest.mark.parametrize("shown", [True, False])
def test_exchanged_allies_exchange_their_features(shown):
    environment = registry.make(EnvTask(name=f"smax/{MAP}", options={"see_enemy_actions": shown}), ENVS)
    (kind,), rng = environment.spec.classes, np.random.default_rng(5)
    played(environment, environment.reset(rng), rng, 12)
    before, features = observed(environment).values[0], np.ones(kind.observation_size, bool)
    teammates, *enemies = kind.entities.blocks
    assert not fault_of(environment.spec) and len(teammates.columns) == ALLIES - 1
    assert {len(enemy.columns) for enemy in enemies} == {1}
    equal = registry.spec(EnvTask(name=f"smax/{MAP}", options={"equal_enemies": True})).classes[0].entities
    assert equal.blocks[0] == teammates and equal.named_block.columns == tuple(enemy.columns[0] for enemy in enemies)
    named = [enemy.columns[0][TARGET] for enemy in enemies]
    assert before[..., named].any() == shown
    # An enemy's target is an ally's number, which belongs to no place among the teammates.
    features[named] = False
    for one, other in combinations(range(ALLIES), 2):
        exchange(environment.arrays, one, other)
        after = observed(environment).values[0]
        exchange(environment.arrays, one, other)
        for agent in {*range(ALLIES)} - {one, other}:
            # The agent itself is in no place.
            places = [teammates.columns[ally - (ally > agent)] for ally in (one, other)]
            expected = before[:, agent].copy()
            expected[:, places[0] + places[1]] = before[:, agent][:, places[1] + places[0]]
            assert (expected != before[:, agent]).any()
            np.testing.assert_array_equal(after[:, agent, features], expected[:, features])
