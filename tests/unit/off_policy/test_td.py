"""Targets worked out by hand, and losses against automatic differentiation."""

import numpy as np
import pytest
import torch

from marless.functions.algorithms.off_policy import td
from marless.functions.algorithms.off_policy.target_networks import hard_update, soft_update

GAMMA = 0.5


def test_termination_removes_next_value_but_truncation_keeps():
    # 1 + ½ 8 where the episode continues or was cut (8 is the value before the reset), 1 where it terminated.
    got = td.one_step(np.array([1.0, 1.0]), np.array([8.0, 8.0]), np.array([False, True]), GAMMA)
    np.testing.assert_array_equal(got, [5.0, 1.0])


# Rewards 1, 2, 4, 8 from step 0 to 3, values after each step 16, 32, 64, 128, a discount of ½. The sum is r_t + ½
# r_{t+1} + ... over m steps, plus ½^m times the value after the last step. (returns, discount, last, target)
ROWS = {
    # No episode ends: the end of the sequence shortens the sums of steps 2 and 3.
    # t=0: 1 + ½2 + ¼4 = 3, ⅛ of 64; t=1: 2 + ½4 + ¼8 = 6, ⅛ of 128; t=2: 4 + ½8 = 8, ¼ of 128; t=3: 8, ½ of 128.
    "runs on": ((), (), [3, 6, 8, 8], [1 / 8, 1 / 8, 1 / 4, 1 / 2], [2, 3, 3, 3], [11, 22, 40, 72]),
    # Step 1 terminates. t=0: 1 + ½2 = 2 and no value. T=1: 2 and no value. Then as above.
    "terminates": ((1,), (1,), [2, 2, 8, 8], [0, 0, 1 / 4, 1 / 2], [1, 1, 3, 3], [2, 2, 40, 72]),
    # Step 1 is cut. t=0: 2, ¼ of 32. T=1: 2, ½ of 32: the value before the reset.
    "is cut": ((), (1,), [2, 2, 8, 8], [1 / 4, 1 / 2, 1 / 4, 1 / 2], [1, 1, 3, 3], [10, 18, 40, 72]),
    # The agent dies at step 1 and its environment continues.
    "dies": ((1,), (), [2, 2, 8, 8], [0, 0, 1 / 4, 1 / 2], [1, 1, 3, 3], [2, 2, 40, 72]),
}
REWARDS, NEXT = np.array([1.0, 2, 4, 8])[:, None], np.array([16.0, 32, 64, 128])[:, None]


def flags(steps):
    return np.isin(np.arange(4), steps)[:, None]


@pytest.mark.parametrize("row", ROWS)
def test_three_step_targets_equal_hand_computation(row):
    terminated, ended, returns, discount, last, targets = ROWS[row]
    n_step = td.n_step_returns(REWARDS, flags(terminated), flags(ended), GAMMA, 3)
    np.testing.assert_array_equal(n_step.returns[:, 0], returns)
    np.testing.assert_array_equal(n_step.discount[:, 0], discount)
    np.testing.assert_array_equal(n_step.last[:, 0], last)
    np.testing.assert_array_equal(n_step.targets(NEXT)[:, 0], targets)


def random_sequences(seed, dtype=np.float64):
    """Three agents, 12 steps, 40 environments. Agents die on their own, episodes are cut or end for all."""
    rng = np.random.default_rng(seed)
    shape = (3, 12, 40)
    rewards, following = rng.standard_normal(shape).astype(dtype), rng.standard_normal(shape).astype(dtype)
    terminated = rng.random(shape) < 0.1
    ended = (rng.random(shape[1:]) < 0.15) | terminated.all(axis=0)
    return rewards, following, terminated, ended


def walk(t, steps, rewards, following, terminated, ended):
    """The n-step target at `t` of one agent in one environment, one step at a time."""
    total = 0.0
    for k in range(steps):
        total += GAMMA**k * rewards[t + k]
        if terminated[t + k]:
            return total
        if ended[t + k] or t + k + 1 == len(rewards) or k + 1 == steps:
            return total + GAMMA ** (k + 1) * following[t + k]
    raise AssertionError


@pytest.mark.parametrize("steps", [1, 2, 5, 30])
def test_n_step_targets_equal_stepwise_walk(steps):
    rewards, following, terminated, ended = random_sequences(0)
    got = td.n_step_returns(rewards, terminated, ended, GAMMA, steps).targets(following)
    for agent, t, env in np.ndindex(rewards.shape):
        one = rewards[agent, :, env], following[agent, :, env], terminated[agent, :, env], ended[:, env]
        assert got[agent, t, env] == pytest.approx(walk(t, steps, *one), rel=1e-12, abs=1e-14)


def test_one_step_returns_give_one_step_targets():
    rewards, following, terminated, ended = random_sequences(1)
    got = td.n_step_returns(rewards, terminated, ended, 0.9, 1).targets(following)
    np.testing.assert_array_equal(got, td.one_step(rewards, following, terminated, 0.9))


def test_mixed_returns_are_those_worked_out_by_hand():
    # λ = ½, gamma = ½, backwards. t=3: 8 + ½128 = 72. T=2: 4 + ½(½64 + ½72) = 38. T=1: 2 + ½(½32 + ½38) = 19.5. T=0: 1
    # + ½(½16 + ½19.5) = 9.875.
    found = td.lambda_returns(REWARDS, flags(()), flags(()), GAMMA, 0.5).targets(NEXT)
    np.testing.assert_array_equal(found[:, 0], [9.875, 19.5, 38, 72])
    # Step 1 is cut: 2 + ½32 = 18. T=0: 1 + ½(½16 + ½18) = 9.5. Where it terminates: 2, and 1 + ½(½16 + ½2) = 5.5.
    cut = td.lambda_returns(REWARDS, flags(()), flags((1,)), GAMMA, 0.5).targets(NEXT)
    np.testing.assert_array_equal(cut[:, 0], [9.5, 18, 38, 72])
    over = td.lambda_returns(REWARDS, flags((1,)), flags((1,)), GAMMA, 0.5).targets(NEXT)
    np.testing.assert_array_equal(over[:, 0], [5.5, 2, 38, 72])


def test_mixed_returns_are_mixtures_of_n_steps():
    rewards, following, terminated, ended = random_sequences(4)
    length, mixing = rewards.shape[1], 0.7
    by_steps = [
        td.n_step_returns(rewards, terminated, ended, GAMMA, steps + 1).targets(following) for steps in range(length)
    ]
    weights = [(1 - mixing) * mixing**steps for steps in range(length - 1)]
    # Returns that end early are equal from there on, so the rest of the weight is theirs.
    expected = np.einsum("n,nate->ate", [*weights, 1 - sum(weights)], np.stack(by_steps))
    found = td.lambda_returns(rewards, terminated, ended, GAMMA, mixing)
    np.testing.assert_allclose(found.targets(following), expected, rtol=1e-12, atol=1e-12)
    nothing = td.lambda_returns(np.zeros_like(rewards), terminated, ended, GAMMA, mixing).targets(following)
    np.testing.assert_allclose(found.returns + nothing, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("mixing", "steps"), [(0.0, 1), (1.0, 12)])
def test_mixed_returns_reach_from_one_step_to_all(mixing, steps):
    rewards, following, terminated, ended = random_sequences(5)
    found = td.lambda_returns(rewards, terminated, ended, GAMMA, mixing).targets(following)
    expected = td.n_step_returns(rewards, terminated, ended, GAMMA, steps).targets(following)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [0, -1])
def test_a_target_has_at_least_one_reward(steps):
    with pytest.raises(ValueError, match=f"at least 1 step ahead, not {steps}"):
        td.n_step_returns(REWARDS, flags(()), flags(()), GAMMA, steps)


def test_double_q_values_best_legal_online_choice():
    online = np.array([[1.0, 3, 2], [1.0, 3, 2], [5.0, 5, 0], [-9.0, -9, -8]])
    target = np.array([[10.0, 20, 30], [10.0, 20, 30], [7.0, 8, 9], [1.0, 2, 3]])
    legal = np.array([[True, True, True], [True, False, True], [True, True, True], [True, True, False]])
    # Free: action 1, although the target prefers 2. Without action 1: action 2. A tie: the first. The best one of row 3
    # is illegal: the first of the other two.
    np.testing.assert_array_equal(td.double_q(online, target, legal), [20, 30, 7, 1])
    np.testing.assert_array_equal(td.double_q(online, target), [20, 20, 7, 3])
    wide = (array.reshape(2, 1, 2, 3) for array in (online, target, legal))
    np.testing.assert_array_equal(td.double_q(*wide), [[[20, 30]], [[7, 1]]])


def test_value_error_goes_to_taken_actions():
    values, actions = np.array([[1.0, 2, 3], [4.0, 5, 6]]), np.array([2, 0])
    np.testing.assert_array_equal(td.gather_actions(values, actions), [3, 4])
    np.testing.assert_array_equal(td.scatter_actions(np.array([0.5, -1.0]), actions, 3), [[0, 0, 0.5], [-1, 0, 0]])


def test_joint_error_is_sum_over_living_agents():
    # Row 0: both agents live on: (3 + 4) - (1 + ½2) - (1 + ½6) = 1. Row 1: agent 1 terminates here:
    # 7 - (1 + ½2) - 1 = 4. Row 2: agent 1 was dead before, so its network's output does not count: 3 - (1 + ½2) = 1.
    utilities, following = np.array([[3.0, 4]] * 3).T, np.array([[2.0, 6]] * 3).T
    rewards = np.array([[1.0, 1], [1, 1], [1, 0]]).T
    terminated = np.array([[False, False], [False, True], [False, False]]).T
    alive = np.array([[True, True], [True, True], [True, False]]).T
    targets = td.one_step(rewards, following, terminated, GAMMA)
    loss = td.td_loss(td.joint_sum(utilities, alive), td.joint_sum(targets, alive))
    np.testing.assert_array_equal(loss.difference, [1, 4, 1])
    np.testing.assert_allclose(loss.grad_output, np.array([2, 8, 2]) / 3)
    np.testing.assert_array_equal(loss.rows, [1, 16, 1])


@pytest.mark.parametrize("delta", [None, 0.7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dying", [False, True])
def test_loss_and_error_equal_automatic_differentiation(delta, weighted, dying):
    rng = np.random.default_rng(3)
    values, targets, weights = rng.standard_normal((3, 64, 2))
    weights = np.abs(weights) if weighted else np.ones((64, 2))
    alive = rng.random((64, 2)) < 0.6 if dying else np.ones((64, 2), bool)
    v, t = torch.tensor(values, requires_grad=True), torch.tensor(targets)
    each = (v - t) ** 2 if delta is None else torch.nn.functional.huber_loss(v, t, reduction="none", delta=delta)
    living = torch.tensor(alive, dtype=torch.float64)
    expected = (each * torch.tensor(weights) * living).sum() / living.sum()
    expected.backward()
    loss = td.td_loss(values, targets, delta, weights if weighted else None, alive if dying else None)
    assert loss.rows.sum() / alive.sum() == pytest.approx(expected.item(), rel=1e-12)
    assert not loss.rows[~alive].any()
    np.testing.assert_allclose(loss.grad_output, v.grad.numpy(), rtol=1e-10, atol=0)
    np.testing.assert_array_equal(loss.difference, np.where(alive, values - targets, 0))  # before weights


def test_batch_without_living_agent_has_no_loss():
    loss = td.td_loss(np.ones(2), np.full(2, np.inf), alive=np.zeros(2, bool))
    np.testing.assert_array_equal([loss.grad_output, loss.rows], [[0, 0], [0, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_and_losses_keep_input_type(dtype):
    rewards, following, terminated, ended = random_sequences(4, dtype)
    n_step = td.n_step_returns(rewards, terminated, ended, 0.9, 3)
    loss = td.td_loss(following, rewards, 1.0, np.ones_like(rewards), ~terminated)
    joint = td.joint_sum(following, terminated)
    arrays = (n_step.returns, n_step.targets(following), loss.grad_output, loss.difference, joint)
    arrays += (td.one_step(rewards, following, terminated, 0.9), td.double_q(rewards[0], following[0], ~terminated[0]))
    arrays += (td.scatter_actions(following[0, 0], np.zeros(40, int), 2),)
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}


ONLINE, TARGET = (
    {"w0": np.array([1.0, 2.0]), "b0": np.array([4.0])},
    {"w0": np.array([3.0, 6.0]), "b0": np.array([0.0])},
)


def test_hard_target_is_copied_every_third_update():
    for updates, source in ((1, TARGET), (2, TARGET), (3, ONLINE), (4, TARGET), (6, ONLINE)):
        got = hard_update(ONLINE, TARGET, updates, interval=3)
        assert {name: tensor.tolist() for name, tensor in got.items()} == {n: t.tolist() for n, t in source.items()}


def test_copied_target_is_separate_from_online_network():
    online = {"w0": np.array([1.0])}
    copied = hard_update(online, {"w0": np.array([0.0])}, 1, interval=1)
    online["w0"] += 5
    assert copied["w0"].tolist() == [1.0]


def test_soft_update_moves_part_of_the_way():
    got = soft_update(ONLINE, TARGET, 0.25)  # 3 - ¼2, 6 - ¼4, 0 + ¼4
    assert {name: tensor.tolist() for name, tensor in got.items()} == {"w0": [2.5, 5.0], "b0": [1.0]}
    assert TARGET["w0"].tolist() == [3.0, 6.0]
    for rate, end in ((0.0, TARGET), (1.0, ONLINE)):
        assert all(np.array_equal(tensor, end[name]) for name, tensor in soft_update(ONLINE, TARGET, rate).items())


def test_targets_refuse_other_tensors_and_invalid_rates():
    with pytest.raises(ValueError, match="do not have the same tensors: b0"):
        hard_update(ONLINE, {"w0": TARGET["w0"]}, 1, 1)
    with pytest.raises(ValueError, match="do not have the same tensors: b0"):
        soft_update({"w0": ONLINE["w0"]}, TARGET, 0.5)
    with pytest.raises(ValueError, match="not every 0"):
        hard_update(ONLINE, TARGET, 1, 0)
    with pytest.raises(ValueError, match=r"from 0 to 1, not 1\.5"):
        soft_update(ONLINE, TARGET, 1.5)
