"""Apprentices: the rules, and the returns of players with no, some or full knowledge, by hand."""

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest

NAME = "roles/apprentices"
SIGNALS, LESSONS, STEPS = 16, 3, 25


def play(num_envs, player):
    """Returns [E, N] of one episode, and its env metrics."""
    environment = registry.make(EnvTask(name=NAME), num_envs)
    observation, returns = environment.reset(np.random.default_rng(3)), 0.0
    for _ in range(STEPS):
        step = environment.step((player(observation.values[0], np.array(environment.roles)),))
        returns += step.rewards
        observation = step.observation
    assert step.ended.all()
    return returns, step.env_metrics


def knows_its_trade(seen, roles):
    return (seen[:, :, :SIGNALS].argmax(axis=-1) + (seen[:, :, SIGNALS] == 1) * (1 + roles)) % SIGNALS


def knows_the_first_trade(seen, roles):
    return knows_its_trade(seen, 0 * roles)


def knows_the_craft(seen, roles):
    return seen[:, :, :SIGNALS].argmax(axis=-1)


def test_player_that_knows_role_gets_best_return():
    returns, metrics = play(20, knows_its_trade)
    np.testing.assert_array_equal(returns, LESSONS + 2 * (STEPS - LESSONS))
    assert returns.sum(axis=1).tolist() == [282.0] * 20
    np.testing.assert_allclose(metrics["mastery"], (STEPS - LESSONS) / STEPS)
    np.testing.assert_array_equal(metrics["trade"], 1)


def test_one_trade_for_all_suits_one_role():
    returns, metrics = play(20, knows_the_first_trade)
    by_role = [LESSONS + 2 * (STEPS - LESSONS), STEPS, STEPS]
    np.testing.assert_array_equal(returns, [by_role + by_role] * 20)
    np.testing.assert_allclose(metrics["trade"], 1 / 3)


def test_craft_alone_pays_point_per_step_in_role():
    returns, metrics = play(20, knows_the_craft)
    np.testing.assert_array_equal(returns, STEPS)
    np.testing.assert_array_equal(metrics["trade"], 0)


def test_random_answers_get_markov_chain_return():
    # State: right answers in a row, LESSONS is absorbing. Every answer is right with probability 1 / 16.
    state, expected = np.eye(LESSONS + 1)[0], 0.0
    for _ in range(STEPS):
        expected += 1 / SIGNALS + state[LESSONS]
        advanced = np.append(0, state[:LESSONS]) / SIGNALS
        advanced[0] = (1 - 1 / SIGNALS) * state[:LESSONS].sum()
        advanced[LESSONS] += state[LESSONS]
        state = advanced
    answers = np.random.default_rng(4)
    returns, _ = play(20_000, lambda seen, roles: answers.integers(SIGNALS, size=seen.shape[:2]))
    assert abs(returns.mean() - expected) < 4 * returns.std() / np.sqrt(returns.size)


def test_wrong_answer_restarts_lessons_but_master_stays():
    environment = registry.make(EnvTask(name=NAME, agents=3, options={"lessons": 2}), 1)
    seen = environment.reset(np.random.default_rng(0)).values[0]
    roles, shown = np.array(environment.roles), []
    # Right, wrong, right, right: agents are masters from the fifth step on, with any later answers.
    for answer in (0, 1, 0, 0, 0, 0):
        step = environment.step(((seen[:, :, :SIGNALS].argmax(axis=-1) + answer) % SIGNALS,))
        seen = step.observation.values[0]
        shown.append((seen[0, 1, SIGNALS], seen[0, 1, SIGNALS + 1], step.rewards[0, 1]))
    assert shown == [(0, 0.5, 1), (0, 0, 0), (0, 0.5, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)]
    step = environment.step((knows_its_trade(seen, roles),))
    assert step.rewards.tolist() == [[2, 2, 2]]


def test_trades_differ_from_each_other_and_from_craft():
    with pytest.raises(BadRequest, match=r"signals is 3; 3 trades that differ .* need at least 4"):
        registry.make(EnvTask(name=NAME, options={"signals": 3}), 1)
