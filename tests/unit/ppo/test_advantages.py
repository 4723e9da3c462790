"""Advantages and next values against numbers worked out by hand and against the definition as a sum."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marless.functions.algorithms.advantages import (
    LearningSignal,
    any_of_side,
    gae,
    next_values,
    team_rewards,
    truncations,
    vtrace,
)

GAMMA, LAMBDA = 0.5, 0.5  # γλ = 0.25


def column(*numbers):
    return np.array(numbers, dtype=float)[:, None]


def flags(*numbers):
    return column(*numbers).astype(bool)


def advantages(rewards, values, following, terminated, ended):
    return gae(rewards, values, following, terminated, ended, GAMMA, LAMBDA)


# Three rewards and values, of an episode that ends by the rules.
WHOLE = column(1, 2, 3), column(0.5, 1, 2), column(1, 2, 1e6), flags(0, 0, 1), flags(0, 0, 1)


@pytest.mark.parametrize(
    ("series", "lambda_", "expected"),
    [
        # A termination has no bootstrap. δ2 = 3 - 2 = 1; δ1 = 2 + 0.5 * 2 - 1 = 2; δ0 = 1 + 0.5 * 1 - 0.5 = 1
        # A2 = 1; A1 = 2 + 0.25 * 1 = 2.25; A0 = 1 + 0.25 * 2.25 = 1.5625
        (WHOLE, LAMBDA, (1.5625, 2.25, 1)),
        # γλ = 1/8: lambda shortens the sum, and gamma alone discounts the bootstrap.
        # A2 = 1; A1 = 2 + 1/8 = 2.125; A0 = 1 + 2.125 / 8 = 1.265625
        (WHOLE, 0.25, (1.265625, 2.125, 1)),
        # The episode is cut after step 1 (value after the cut: 4), the rollout ends after step 2 within the next (6).
        # δ2 = 3 + 0.5 * 6 - 2 = 4; δ1 = 2 + 0.5 * 4 - 1 = 3; δ0 = 1 + 0.5 * 1 - 0.5 = 1
        # A2 = 4; A1 = 3, without the next episode; A0 = 1 + 0.25 * 3 = 1.75
        ((*WHOLE[:2], column(1, 4, 6), flags(0, 0, 0), flags(0, 1, 0)), LAMBDA, (1.75, 3, 4)),
        # Step 0 terminates and resets: A0 = 1 - 2 = -1, independent of later steps. Step 1: cut by the rollout's end,
        # value 2: A1 = 5 + 0.5 * 2 - 1 = 5.
        ((column(1, 5), column(2, 1), column(1, 2), flags(1, 0), flags(1, 0)), LAMBDA, (-1, 5)),
    ],
)
def test_advantages_are_those_worked_out_by_hand(series, lambda_, expected):
    np.testing.assert_array_equal(gae(*series, GAMMA, lambda_), column(*expected))


def test_dying_agent_gets_nothing_from_later_team_rewards():
    rewards = np.stack([column(1, 2, 3), column(1, 0, 0)])
    values = np.stack([column(0.5, 1, 2), column(0.5, 8, 8)])
    following = np.stack([column(1, 2, 6), column(8, 8, 8)])
    terminated = np.stack([flags(0, 0, 0), flags(1, 0, 0)])
    found = advantages(rewards, values, following, terminated, flags(0, 0, 0))
    # Agent 0: δ = 1, 2, 3 + 3 - 2 = 4; A2 = 4, A1 = 2 + 1 = 3, A0 = 1 + 0.75 = 1.75.
    np.testing.assert_array_equal(found[0], column(1.75, 3, 4))
    # Agent 1 at its death: 1 - 0.5. Its later rows are never learnt from.
    assert found[1, 0, 0] == 0.5


def random_series(seed, agents=3, steps=20, num_envs=4):
    """Rewards, values, next values, terminations of agents, and ends of episodes."""
    rng = np.random.default_rng(seed)
    rewards, values, following = rng.standard_normal((3, agents, steps, num_envs))
    terminated = rng.random((agents, steps, num_envs)) < 0.1
    return rewards, values, following, terminated, rng.random((steps, num_envs)) < 0.15


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 1), st.floats(0, 1), st.integers(1, 30))
def test_v_trace_on_same_policy_is_gae(seed, gamma, lambda_, steps):
    series = random_series(seed, steps=steps)
    found = vtrace(*series, gamma, lambda_, np.ones_like(series[0]))
    np.testing.assert_allclose(found, gae(*series, gamma, lambda_), rtol=1e-12, atol=1e-12)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.5, 1), st.floats(0, 1))
def test_v_trace_is_weighted_sum_until_first_stop(seed, gamma, lambda_):
    """Equation 1 of the paper, each step by itself: v_s - V(x_s) = sum over t >= s of gamma^(t-s) c_s ... c_(t-1) d_t,
    d_t = min(1, p_t)(r_t + gamma V(x_(t+1)) - V(x_t)) and c_t = lambda min(1, p_t). Then the advantage of rlax,
    r_s + gamma (lambda v_(s+1) + (1 - lambda) V(x_(s+1))) - V(x_s), which its gradient multiplies by min(1, p_s)."""
    rewards, values, following, terminated, ended = series = random_series(seed)
    ratios = np.exp(np.random.default_rng(seed).standard_normal(rewards.shape))
    bootstrap = np.where(terminated, 0.0, following)
    errors, expected = np.zeros_like(rewards), np.zeros_like(rewards)
    for n, s, e in np.ndindex(rewards.shape):
        coefficient = 1.0
        for t in range(s, rewards.shape[1]):
            residual = rewards[n, t, e] + gamma * bootstrap[n, t, e] - values[n, t, e]
            errors[n, s, e] += gamma ** (t - s) * coefficient * min(1, ratios[n, t, e]) * residual
            coefficient *= lambda_ * min(1, ratios[n, t, e])
            if terminated[n, t, e] or ended[t, e]:
                break
    for n, s, e in np.ndindex(rewards.shape):
        goes_on = s + 1 < rewards.shape[1] and not terminated[n, s, e] and not ended[s, e]
        target = bootstrap[n, s, e] + (errors[n, s + 1, e] if goes_on else 0.0)
        mixed = lambda_ * target + (1 - lambda_) * bootstrap[n, s, e]
        expected[n, s, e] = rewards[n, s, e] + gamma * mixed - values[n, s, e]
    weights = np.minimum(ratios, 1)
    found = vtrace(*series, gamma, lambda_, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(weights * found, errors, rtol=1e-12, atol=1e-12)


def test_v_trace_takes_less_after_unlikely_action():
    # d2 = 1, d1 = 2 and d0 = 1 follow from the first case. A2 = 1; v2 - V2 = A2 / 2 as the action of step 2 is half as
    # likely; A1 = 2 + 0.25 * 0.5 = 2.125; the action of step 1 is never taken now, so nothing follows step 0: A0 = 1.
    found = vtrace(*WHOLE, GAMMA, LAMBDA, column(0.5, 0, 0.5))
    np.testing.assert_array_equal(found, column(1, 2.125, 1))


def test_next_values_are_next_rows_except_after_cut():
    values = np.array([[[1.0, 2], [3, 4], [5, 6]], [[10, 20], [30, 40], [50, 60]]])  # [2 agents, T=3, E=2]
    cut = np.array([[1, 0], [2, 0], [2, 1]])  # environment 0 is cut after step 1, the rollout's end cuts both
    after = np.array([[-1.0, -2, -3], [-10, -20, -30]])
    expected = [[[3, 4], [-1, 6], [-2, -3]], [[30, 40], [-10, 60], [-20, -30]]]
    np.testing.assert_array_equal(next_values(values, after, cut), expected)


def test_last_row_without_cut_has_no_next_value():
    # Environment 1 terminated at the rollout's last step: nothing follows.
    found = next_values(np.ones((1, 2, 2)), np.array([[7.0]]), np.array([[1, 0]]))
    np.testing.assert_array_equal(found, [[[1, 1], [7, 0]]])


# One walk of three steps with reward 1 each. The values are 2, and 4 after the last step. Gamma and lambda are 1/2.
#   how the third step ends          d2                 d1, d0             A2   A1           A0
#   by the rules                     1 - 2 = -1         1 + 2/2 - 2 = 0    -1   0 - 1/4      -1/16
#   by a time limit, "bootstrap"     1 + 4/2 - 2 = 1    0                  1    1/4          1/16
#   by a time limit, "terminal"      as by the rules: no successor value
WALK = {"rules": (-1.0, -0.25, -0.0625), "bootstrap": (1.0, 0.25, 0.0625)}


def walked(terminated):
    found = advantages(column(1, 1, 1), column(2, 2, 2), column(2, 2, 4), terminated, flags(0, 0, 1))
    return tuple(found[::-1, 0].tolist())


def test_time_limit_setting_changes_sign_of_advantages():
    ended, cut = flags(0, 0, 1), np.array([[2, 0]])
    assert walked(flags(0, 0, 1)) == WALK["rules"]
    assert walked(flags(0, 0, 0)) == WALK["bootstrap"]
    assert walked(flags(0, 0, 0) | truncations(ended, cut)) == WALK["rules"]


def test_rollout_end_within_episode_is_no_time_limit():
    ended = np.array([[False, True, False], [True, False, False]])
    # Environment 0 was truncated, 1 terminated before the rollout ended, and 2 was never reset.
    cut = np.array([[1, 0], [1, 1], [1, 2]])
    np.testing.assert_array_equal(truncations(ended, cut), [[0, 0, 0], [1, 0, 0]])


def test_everyone_gets_the_sum_of_its_side():
    rewards = np.array([1.0, 10.0, 100.0])[:, None, None] * np.array([[[1, 2], [3, 4]]])
    together = np.array([[111.0, 222], [333, 444]])
    np.testing.assert_array_equal(team_rewards(rewards, ()), [together] * 3)
    found = team_rewards(rewards, (0, 1, 0))
    np.testing.assert_array_equal(found[0], [[101, 202], [303, 404]])
    np.testing.assert_array_equal(found[1], rewards[1])
    np.testing.assert_array_equal(found[2], found[0])


def test_team_return_continues_after_death_of_member():
    # Agent 0 dies at step 0, agent 1 wins at step 2 and gets 8 for it. Values are 0, λ is 1: agent 0's action
    # was worth 0.5 * 0.5 * 8 = 2 to the team, and nothing to itself.
    alive = np.stack([flags(1, 0, 0), flags(1, 1, 1)])
    terminated = np.stack([flags(1, 0, 0), flags(0, 0, 1)])
    rewards = np.stack([column(0, 0, 0), column(0, 0, 8)])
    ended, nothing = flags(0, 0, 1), np.zeros((2, 3, 1))
    spec = SimpleNamespace(sides=())
    batch = SimpleNamespace(alive=alive, terminated=terminated, rewards=rewards, ended=ended)
    for reward, worth, learned in (("team", [2, 4, 8], [1, 1, 1]), ("own", [0, 0, 0], [1, 0, 0])):
        context = SimpleNamespace(spec=spec, batch=batch, config=SimpleNamespace(time_limit="bootstrap"))
        paid, over, rows = LearningSignal.of(context, [0, 1], reward == "team")
        found = gae(paid, nothing, nothing, over, ended, GAMMA, 1.0)
        np.testing.assert_array_equal(found[:, :, 0], [worth, [2, 4, 8]])
        np.testing.assert_array_equal(rows[:, :, 0], np.array([learned, [1, 1, 1]], bool))


def test_gone_side_has_no_return_while_other_plays():
    alive = np.stack([flags(1, 0, 0), flags(1, 1, 1), flags(1, 1, 0)])
    np.testing.assert_array_equal(
        any_of_side(alive, (0, 1, 0))[:, :, 0], np.array([[1, 1, 0], [1, 1, 1], [1, 1, 0]], bool)
    )
    np.testing.assert_array_equal(any_of_side(alive, ())[:, :, 0], np.ones((3, 3), bool))


def test_side_is_over_when_all_members_are_gone():
    # By environment: both end here, one does, the other does, the other continues, both were dead before. Agent 2 is on
    # the other side and continues.
    alive = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]], bool)[:, None]
    terminated = np.array([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]], bool)[:, None]
    batch = SimpleNamespace(alive=alive, terminated=terminated, rewards=np.zeros((3, 1, 5)))
    context = SimpleNamespace(
        spec=SimpleNamespace(sides=(0, 0, 1)), batch=batch, config=SimpleNamespace(time_limit="bootstrap")
    )
    found = LearningSignal.of(context, [0, 1, 2], team=True)
    np.testing.assert_array_equal(found.terminal[:, 0], np.array([[1, 0, 1, 0, 1]] * 2 + [[0] * 5], bool))
    np.testing.assert_array_equal(found.loss_mask[:, 0], np.array([[1, 1, 1, 1, 0]] * 2 + [[1] * 5], bool))
