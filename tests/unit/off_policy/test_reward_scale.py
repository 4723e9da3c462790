"""The scale of values, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from marless.functions.algorithms.advantages import LearningSignal
from marless.functions.algorithms.off_policy.reward_scale import RewardScale, scale_rewards

REWARDS = np.array([-4.0, -2.0, -2.0, 0.0])  # mean -2, mean square 6, variance 2


def once():
    return RewardScale().update(REWARDS, lambda: -20.0)


def test_values_are_scaled_by_deviation_above_level():
    assert once().value_scale(True) == pytest.approx((2**0.5, -20 / 2**0.5))


def test_rewards_as_they_are_have_the_level_too():
    assert once().value_scale(False) == (1.0, -20.0)


def test_level_stays_while_scale_follows_rewards():
    twice = once().update(REWARDS + 6, lambda: pytest.fail("it was asked for once"))
    assert twice.level == -20
    # Both count nearly equally: mean 1, mean square (6 + 18) / 2 = 12.
    assert twice.value_scale(True).reward == pytest.approx(11**0.5, rel=1e-3)


def test_before_any_reward_nothing_changes():
    assert RewardScale().value_scale(True) == (1.0, 0.0)
    assert RewardScale().update(REWARDS[:0], lambda: 1.0) == RewardScale()


def test_it_is_kept_as_four_numbers():
    scale = once()
    assert RewardScale.of(scale.tensor) == scale and scale.tensor.shape == (4,)


def test_level_is_mean_return_of_first_round():
    # Two agents, three steps, one environment, gamma 1/2. The first is dead after two steps, the second lives on.
    rewards = np.array([[[4.0], [2.0], [9.0]], [[0.0], [0.0], [8.0]]])
    over = np.array([[[False], [True], [True]], [[False], [False], [False]]])
    signal = LearningSignal(rewards, over, loss_mask=np.array([[[True], [True], [False]], [[True], [True], [True]]]))
    context = SimpleNamespace(
        tensors={"normaliser/g00": np.zeros(4)},
        config=SimpleNamespace(discount=0.5, standardise_rewards=False, centre_rewards=False),
        batch=SimpleNamespace(ended=np.zeros((3, 1), bool)),
    )
    found = scale_rewards(context, "g00", signal, lambda _: signal)
    # 4 + 2/2 = 5, and 2. 0 + 0/2 + 8/4 = 2, 0 + 8/2 = 4, and 8.
    assert found.offset == pytest.approx((5 + 2 + 2 + 4 + 8) / 5)
    assert found.normaliser[3] == found.offset
    assert found.rewards.tolist() == rewards.tolist()


@pytest.mark.parametrize(("standardise", "divisor"), [(True, 2**0.5), (False, 1.0)])
def test_centred_rewards_subtract_running_mean_without_level(standardise, divisor):
    rewards = REWARDS.reshape(1, 4, 1)
    signal = LearningSignal(rewards, np.zeros((1, 4, 1), bool), loss_mask=np.ones((1, 4, 1), bool))
    context = SimpleNamespace(
        tensors={"normaliser/g00": np.zeros(4)},
        config=SimpleNamespace(discount=0.5, standardise_rewards=standardise, centre_rewards=True),
        batch=SimpleNamespace(ended=np.zeros((4, 1), bool)),
    )
    found = scale_rewards(context, "g00", signal, lambda _: signal)
    np.testing.assert_allclose(found.rewards.reshape(-1), np.array([-2, 0, 0, 2]) / divisor, rtol=1e-12)
    assert found.offset == 0.0
