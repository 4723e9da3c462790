"""The dial: returns of players that know everything, only the sector, or nothing, and noisy rewards."""

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest

NAME = "toy/dial"
TARGETS, SECTORS, NOTCHES, EDGE, NOISE, STEPS, AGENTS = 12, 4, 3, 0.5, 8.0, 25, 4


def play(num_envs, player, **options):
    """Returns [E], summed over agents, of one episode, and its env metrics."""
    environment = registry.make(EnvTask(name=NAME, options=options), num_envs)
    observation, returns = environment.reset(np.random.default_rng(3)), np.zeros(num_envs)
    for _ in range(STEPS):
        step = environment.step((player(observation.values[0].argmax(axis=-1)),))
        returns += step.rewards.sum(axis=1)
        observation = step.observation
    assert step.ended.all()
    return returns, step.env_metrics


def right(target):
    return target % SECTORS * NOTCHES + target % NOTCHES


def assert_mean(returns, expected):
    assert abs(returns.mean() - expected) < 4 * returns.std() / np.sqrt(len(returns))


def test_omniscient_player_gets_best_return_on_average():
    returns, metrics = play(4000, right)
    assert_mean(returns, AGENTS * STEPS * EDGE)
    # The deviation of a sum of 100 noises is 80. That of a deviation of 4,000 values is 1.1 % of it.
    assert returns.std() == pytest.approx(NOISE * 10, rel=0.05)
    np.testing.assert_array_equal(metrics["notch"], 1)


def test_without_noise_every_return_is_the_best_one():
    returns, _ = play(50, right, noise=0)
    np.testing.assert_allclose(returns, 50.0)


def test_sector_alone_gets_return_divided_by_notches():
    choices = np.random.default_rng(1)
    returns, metrics = play(
        8000, lambda target: target % SECTORS * NOTCHES + choices.integers(NOTCHES, size=target.shape)
    )
    assert_mean(returns, AGENTS * STEPS * EDGE / NOTCHES)
    np.testing.assert_array_equal(metrics["sector"], 1)


def test_random_positions_get_hand_computed_return():
    # Two of four random sectors are 1.25 apart on average, and 1 in 12 positions is right. A step gives -0.5 * 1.25 +
    # 0.5 / 12 = -0.58333.
    choices = np.random.default_rng(1)
    returns, _ = play(8000, lambda target: choices.integers(SECTORS * NOTCHES, size=target.shape))
    assert_mean(returns, -0.583333 * AGENTS * STEPS)


def test_wrong_sector_costs_half_its_distance_without_noise():
    environment = registry.make(EnvTask(name=NAME), 1)
    target = environment.reset(np.random.default_rng(0)).values[0].argmax(axis=-1)
    for away in (1, 2, 3):
        sector = (target % SECTORS + away) % SECTORS
        step = environment.step((sector * NOTCHES + 1,))
        np.testing.assert_array_equal(step.rewards, -0.5 * np.abs(sector - target % SECTORS))
        target = step.observation.values[0].argmax(axis=-1)


def test_a_dial_without_agents_is_refused():
    with pytest.raises(BadRequest, match="agents is 0; at least 1 turns its dial"):
        registry.make(EnvTask(name=NAME, agents=0), 1)
