"""Errors of agents' reward models on each other's steps."""

import dataclasses

import numpy as np
import pytest
from test_diagnostics import PAIR, SEPARATE, SHARED, report, scene

from marless.functions.algorithms import reward_models
from marless.functions.algorithms.ppo.policy_summaries import PPO_SUMMARIES
from marless.functions.algorithms.reward_models import BLOCKS, NUMBERS, PENALTY, ROWS, errors, sample_grid
from marless.functions.algorithms.team_reward_models import kept_sums

AGENTS, STEPS, ENVS, WIDTH = 4, 25, 64, 3


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def data(roles, seed, noise=0.1):
    """Observations, and a reward that is minus the distance from the point of the agent's role."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((len(roles), STEPS, ENVS, WIDTH)).astype(np.float32)
    points = np.eye(WIDTH)[np.array(roles)][:, None, None]
    rewards = -np.linalg.norm(inputs - points, axis=-1) + noise * rng.standard_normal(inputs.shape[:3])
    return inputs, rewards, np.ones(inputs.shape[:3], bool)


def added(found):
    """Return the share ``[i, j]`` that exchanging the models of two agents adds to their errors."""
    own = np.einsum("iik->ik", found)
    scale = own[:, None] + own
    return (found + found.swapaxes(0, 1) - scale).mean(axis=2) / scale.mean(axis=2)


def test_only_models_of_same_reward_are_interchangeable():
    roles = (0, 1, 0, 1)
    shares = np.array([added(errors(*data(roles, seed), np.random.default_rng(seed))) for seed in range(30)])
    same, other = shares[:, 0, 2], shares[:, 0, 1]
    # The bias is zero for any fit: within three standard errors of the mean of 30 draws.
    assert abs(same.mean()) < 3 * same.std(ddof=1) / np.sqrt(30)
    assert other.min() > 1 > same.max() + 0.5


def test_a_poor_model_is_no_role():
    """If inputs and rewards are unrelated, no model is better than another."""
    shares = []
    for seed in range(30):
        inputs, rewards, alive = data((0, 0), seed)
        noise = np.random.default_rng(seed + 100).standard_normal(rewards.shape)
        shares.append(added(errors(inputs, noise, alive, np.random.default_rng(seed)))[0, 1])
    assert abs(np.mean(shares)) < 3 * np.std(shares, ddof=1) / np.sqrt(30)


def test_the_weights_are_those_of_ridge_regression(rng):
    features, rewards = rng.standard_normal((200, 20)).astype(np.float32), rng.standard_normal(200)
    penalty = PENALTY * float((features.astype(np.float64) ** 2).sum()) / 20
    # Least squares with a row for the penalty of each weight.
    rows = np.concatenate([features.astype(np.float64), np.sqrt(penalty) * np.eye(20)])
    expected = np.linalg.lstsq(rows, np.concatenate([rewards, np.zeros(20)]), rcond=None)[0]
    np.testing.assert_allclose(reward_models._ridge(features, rewards), expected, atol=1e-5)


def test_dead_steps_do_not_count_as_errors():
    inputs, rewards, alive = data((0, 1), 3)
    alive[0, 5:] = False
    changed = np.where(alive, rewards, 1e6)
    first, second = (errors(inputs, given, alive, np.random.default_rng(1)) for given in (rewards, changed))
    np.testing.assert_array_equal(first, second)
    alive[0] = False
    assert errors(inputs, rewards, alive, np.random.default_rng(1)) is None


@pytest.mark.parametrize("num_envs, blocks", [(3, None), (4, 2), (5, 2), (15, 7), (16, 8), (64, 8)])
def test_few_environments_make_few_blocks_and_three_none(num_envs, blocks):
    inputs, rewards, alive = (array[:, :, :num_envs] for array in data((0, 1), 3))
    found = errors(inputs, rewards, alive, np.random.default_rng(1))
    assert found is None if blocks is None else found.shape == (2, 2, blocks)


def test_inputs_that_never_vary_are_left_out():
    inputs, rewards, alive = data((0, 1), 3)
    wide = np.concatenate([inputs, np.full((*inputs.shape[:3], 2), 7, np.float32)], axis=-1)
    first, second = (errors(given, rewards, alive, np.random.default_rng(1)) for given in (inputs, wide))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("numbers", [12, 20_000, 200_000])
@pytest.mark.parametrize("steps, num_envs", [(25, 40), (25, 400), (500, 400), (5000, 2), (1, 1), (3000, 3000)])
def test_used_steps_are_few_and_spread(steps, num_envs, numbers):
    rows, envs = sample_grid(steps, num_envs, numbers)
    most = min(ROWS, NUMBERS // numbers)
    assert len(rows) * len(envs) <= max(most, len(envs))
    assert len(envs) >= min(num_envs, 2 * BLOCKS)
    for indices, count in ((rows, steps), (envs, num_envs)):
        assert len(set(indices.tolist())) == len(indices) and indices[0] == 0 and indices[-1] < count
    if steps * num_envs <= most:
        assert (len(rows), len(envs)) == (steps, num_envs)


def test_learner_reports_row_of_errors_per_member():
    before, after = scene(*PAIR)
    own = np.random.default_rng(5).standard_normal(before.batch.rewards.shape).astype(before.batch.rewards.dtype)
    before = dataclasses.replace(before, batch=dataclasses.replace(before.batch, rewards=own))
    _, tables = report("rewards", before, after)
    # Agent 1 is on its own.
    assert {agent: table.shape for agent, table in tables.items()} == {0: (2, BLOCKS), 2: (2, BLOCKS)}


def test_groups_of_one_show_no_roles():
    assert report("rewards", *scene(*SEPARATE)) == ({}, {})


@pytest.mark.parametrize("paid", ["own", "equal", "team"])
def test_members_with_one_reward_compare_by_team_model(paid):
    """Dead members get nothing. Of the model of a team, later rounds read sums, which the policy stage keeps."""
    before, after = scene(*SHARED)
    batch, config = before.batch, type(before.config)(reward="team" if paid == "team" else "own")
    assert 0 < batch.alive.mean() < 1
    rewards = np.where(batch.alive, batch.rewards[:1], 0.0).astype(batch.rewards.dtype)
    rewards[0][batch.alive[0]] += paid != "equal"
    config = config.resolved(before.spec)
    before = dataclasses.replace(before, config=config, batch=dataclasses.replace(batch, rewards=rewards))
    result = PPO_SUMMARIES["rewards"](before, after, 0)
    assert set(result.tables) == {0, 1, 2}
    names = {f"policy_optimiser/g00/team_reward/{name}" for name in ("scale", "sums")}
    assert set(result.tensors) == (set() if paid == "own" else names)
    later = dataclasses.replace(before, tensors={**before.tensors, **result.tensors})
    assert kept_sums(later, 0).keys() == result.tensors.keys()


def test_wide_inputs_are_seen_by_their_cosines_alone():
    rng = np.random.default_rng(2)
    wide = rng.standard_normal((2, 5, 32, 400)).astype(np.float32)
    assert reward_models._features(wide, rng).shape[-1] == reward_models.FEATURES + 1
    assert reward_models._features(wide[..., :7], rng).shape[-1] == reward_models.FEATURES + 1 + 7
