"""Exchanging two allies of SMAX in the state exchanges their features in observations."""

from importlib.util import find_spec
from itertools import combinations

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.spec_check import fault_of

# Two stalkers and three zealots on each side.
MAP, ALLIES, UNITS = "2s3z", 5, 10
ENVS, FIRST_TARGET, LAST_TARGETED = 4, 5, 5


def exchanged(state, one, other):
    """JaxMARL's state with two allies exchanged, and with them the targets of the enemies."""
    units = np.arange(UNITS)
    units[[one, other]] = other, one
    arrays = {name: np.asarray(value) for name, value in vars(state).items()}
    moved = {name: array[:, units] for name, array in arrays.items() if array.ndim > 1}
    # Enemies number the allies from the last to the first.
    numbers = np.arange(FIRST_TARGET + ALLIES)
    numbers[FIRST_TARGET:] = FIRST_TARGET + ALLIES - 1 - units[:ALLIES][::-1]
    targets = moved["prev_attack_actions"].copy()
    targets[:, ALLIES:] = numbers[targets[:, ALLIES:]]
    return state.replace(**moved | {"prev_attack_actions": targets})


def attacking(seen, rng):
    """Each ally shoots a random enemy in reach, or moves."""
    return (rng.random(seen.masks[0].shape) * seen.masks[0] * ([1] * FIRST_TARGET + [9] * ALLIES)).argmax(axis=2)


@pytest.mark.conformance
@pytest.mark.skipif(find_spec("jax") is None or find_spec("jaxmarl") is None, reason="JaxMARL is not installed")
@pytest.mark.parametrize("shown", [True, False])
def test_exchanged_allies_exchange_their_features(shown):
    environment = registry.make(EnvTask(name=f"smax/{MAP}", options={"see_enemy_actions": shown}), ENVS)
    (kind,), rng = environment.spec.classes, np.random.default_rng(5)
    seen = environment.reset(rng)
    for _ in range(12):
        seen = environment.step((attacking(seen, rng),)).observation
    import jax
    from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario

    theirs = HeuristicEnemySMAX(scenario=map_name_to_scenario(MAP), see_enemy_actions=shown)
    observe = jax.jit(jax.vmap(theirs.get_obs))

    def observed(state):
        seen_by = observe(environment._battles.replace(state=state))
        return np.stack([np.asarray(seen_by[agent]) for agent in environment.spec.agents], axis=1)

    state = environment._battles.state
    before, features = observed(state), np.ones(kind.observation_size, bool)
    teammates, *enemies = kind.entities.blocks
    assert not fault_of(environment.spec) and len(teammates.columns) == ALLIES - 1
    assert {len(enemy.columns) for enemy in enemies} == {1}
    named = [enemy.columns[0][LAST_TARGETED] for enemy in enemies]
    assert before[..., named].any() == shown
    # An enemy's target is an ally's number, which belongs to no place among the teammates.
    features[named] = False
    for one, other in combinations(range(ALLIES), 2):
        after = observed(exchanged(state, one, other))
        for agent in {*range(ALLIES)} - {one, other}:
            # The agent itself is in no place.
            places = [teammates.columns[ally - (ally > agent)] for ally in (one, other)]
            expected = before[:, agent].copy()
            expected[:, places[0] + places[1]] = before[:, agent][:, places[1] + places[0]]
            assert (expected != before[:, agent]).any()
            np.testing.assert_array_equal(after[:, agent, features], expected[:, features])
