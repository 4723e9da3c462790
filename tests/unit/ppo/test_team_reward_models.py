"""Roles from one reward for all: models of a sum over agents, and their errors after an exchange."""

import numpy as np
import pytest
from safetensors.numpy import save

from marless.coordinator.core.state import State
from marless.coordinator.rules.roles import RoleHistory, proposed_groups, rejects_equal_roles, update_role_test
from marless.functions.algorithms import team_reward_models
from marless.functions.algorithms.team_reward_models import PENALTY, SCALE, SUMS, TeamRewards, errors, kept_prefix
from marless.functions.codec import reference
from marless.reports.weights import weights_sha256

STEPS, ENVS, WIDTH, FEATURES = 10, 32, 3, 48


def played(roles, rng, length=1, shuffled=False):
    """A round with a reward of minus the sum of distances from the points of the roles, paid every `length` steps."""
    inputs = rng.standard_normal((len(roles), STEPS, ENVS, WIDTH)).astype(np.float32)
    points = 2 * np.eye(WIDTH)[np.array(roles)][:, None, None]
    reward = -np.linalg.norm(inputs - points, axis=-1).sum(axis=0) + 0.1 * rng.standard_normal((STEPS, ENVS))
    whole = STEPS // length * length
    sums, paid = reward[:whole].reshape(-1, length, ENVS).sum(axis=1), np.zeros((STEPS, ENVS))
    paid[length - 1 : whole : length] = rng.permutation(sums, axis=1) if shuffled else sums
    ended = np.zeros((STEPS, ENVS), bool)
    ended[max(length, 2) - 1 :: max(length, 2)] = True
    return TeamRewards(inputs, paid, np.ones(inputs.shape[:3], bool), ended)


def groups_after(rounds, roles, seed, **settings):
    """The groups that the rule finds with an error of 0.05, and how many rounds were evidence."""
    rng, history, kept, evident, groups = np.random.default_rng(seed), RoleHistory(), {}, 0, (0,) * len(roles)
    for _ in range(rounds):
        found, kept = errors(played(roles, rng, **settings), kept, np.random.default_rng(seed), FEATURES)
        if found is not None:
            evident, history = evident + 1, update_role_test(history, groups, found, 0.05)
            if rejects_equal_roles(history, 0.05):
                return proposed_groups(history, groups), evident
    return groups, evident


@pytest.mark.parametrize("length, rounds", [(1, 4), (5, 12)], ids=["every step", "every episode"])
def test_roles_are_found_in_additive_reward(length, rounds):
    for seed in range(3):
        assert groups_after(rounds, (0, 1, 0, 1), seed, length=length)[0] == (0, 1, 0, 1)


def test_agents_of_one_role_stay_together():
    """A run may be wrong with probability 0.05. More than 3 of 20 wrong runs have probability 0.016."""
    results = [groups_after(4, (0, 0, 0), seed) for seed in range(20)]
    assert min(evident for _, evident in results) >= 2
    assert sum(groups != (0, 0, 0) for groups, _ in results) <= 3


def test_unexplained_reward_is_no_evidence():
    data = played((0, 1), np.random.default_rng(1), shuffled=True)
    found, kept = errors(data, {}, np.random.default_rng(1), FEATURES)
    assert found is None and set(kept) == {SCALE, SUMS}
    twice = errors(data, kept, np.random.default_rng(1), FEATURES)[1]
    np.testing.assert_allclose(twice[SUMS], 2 * kept[SUMS])
    for nothing in (
        data._replace(reward=0 * data.reward),
        TeamRewards(*(array[..., :3, :] for array in data[:1]), *(array[..., :3] for array in data[1:])),
    ):
        assert errors(nothing, kept, np.random.default_rng(1)) == (None, {})


def test_errors_equal_ridge_regression_with_exchanged_weights():
    data, rng = played((0, 1, 0), np.random.default_rng(4)), np.random.default_rng(4)
    found, kept = errors(data, {}, np.random.default_rng(4), FEATURES)
    rows, envs = team_reward_models._paid_rows(data, kept[SCALE], rng, FEATURES // 3)
    x, y, half = rows[:, :-1].astype(np.float64), rows[:, -1].astype(np.float64), envs % 2
    agents, squares = len(data.inputs), []
    for train in (0, 1):
        mine, penalty = x[half == train], PENALTY * np.mean(x[half == train] ** 2)
        # Least squares with a row for the penalty of each weight.
        system = np.concatenate([mine, np.sqrt(penalty) * np.eye(mine.shape[1])])
        weights = np.linalg.lstsq(system, np.concatenate([y[half == train], np.zeros(mine.shape[1])]), rcond=None)[0]
        parts = weights[:-1].reshape(agents, -1)[[1, 0, 2]]
        exchanged = np.append(parts.ravel(), weights[-1])
        squares.append(np.mean((x[half != train] @ exchanged - y[half != train]) ** 2))
    assert 2 * found[0, 1].mean() == pytest.approx(np.mean(squares), rel=1e-3)


def test_final_reward_row_is_sum_over_finished_episode():
    data = played((0, 1), np.random.default_rng(2), length=4)  # the last two of ten steps end no episode
    scale = np.stack([np.zeros(WIDTH), np.ones(WIDTH)]).astype(np.float32)
    rows, envs = team_reward_models._paid_rows(data, scale, np.random.default_rng(2), 5)
    assert envs.tolist() == np.repeat(np.arange(ENVS), 2).tolist()
    # Behind an agent's cosines and its 1 are its inputs, which are within the cut-off.
    width = (rows.shape[1] - 2) // 2
    first = data.inputs[1][:4].sum(axis=0)
    np.testing.assert_allclose(rows[::2, 2 * width - WIDTH : 2 * width], first, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(rows[:, -2], 1)
    np.testing.assert_allclose(rows[::2, -1], data.reward[3], rtol=1e-6)


def test_weight_hash_omits_sums():
    parts = {"policy/g00": 0, "policy_optimiser/g00": 0}
    bodies = [save({"policy/g00/w0": np.ones(2), f"{kept_prefix(0)}/{SUMS}": np.full(3, number)}) for number in (0, 1)]
    assert len({weights_sha256(State(objects=(reference("a", b),), parts=parts), {"a": b}) for b in bodies}) == 1
