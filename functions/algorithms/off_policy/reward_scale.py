"""The scale of values, for rewards that may be large, small, or far from 0."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from marless.functions.algorithms.advantages import LearningSignal
from marless.functions.algorithms.off_policy.specs import ReplayConfig
from marless.functions.algorithms.off_policy.td import n_step_returns
from marless.functions.algorithms.stage import Context
from marless.functions.nn.layers import Array
from marless.functions.nn.normaliser import Normaliser

# The decay of the rewards' running mean and mean square, per update.
_DECAY = 0.999


class ValueScale(NamedTuple):
    """The scale of values: rewards are divided by `reward`, and network outputs are scaled values minus `offset`."""

    reward: float
    offset: float


@dataclass(frozen=True)
class RewardScale:
    """The running standard deviation of rewards, and the `level` of values: their mean in the first round.

    Values are divided by the standard deviation, and network outputs are values minus the level. Without the level,
    networks spend thousands of steps on a shift of all values, which saturates hidden units. Centred rewards change the
    value of ending an episode, and the level keeps it. Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement
    Learning Algorithms in Cooperative Tasks", 2021. The level stays fixed, because networks would have to learn every
    change of it. With `centre_rewards` the running mean is subtracted in its place.
    """

    statistics: Normaliser = field(default_factory=Normaliser)
    level: float = 0.0

    @classmethod
    def of(cls, tensor: Array) -> Self:
        """The scale stored as a tensor ``[4]``."""
        *statistics, level = tensor.tolist()
        return cls(Normaliser(*statistics), level)

    @property
    def tensor(self) -> Array:
        """Mean, mean square, weight and level ``[4]``, or zeros before the first rewards."""
        return np.array([self.statistics.mean, self.statistics.square, self.statistics.weight, self.level])

    def update(self, rewards: Array, level: Callable[[], float]) -> Self:
        """The scale after a minibatch's `rewards`, unchanged if there are none. Calls `level` only the first time."""
        if not rewards.size:
            return self
        statistics = self.statistics.update(rewards, _DECAY)
        return type(self)(statistics, self.level if self.statistics.weight else level())

    def value_scale(self, standardise_rewards: bool, centre_rewards: bool = False) -> ValueScale:
        """The scale of values. Rewards are divided only with `standardise_rewards`."""
        reward = self.statistics.scale if standardise_rewards else 1.0
        return ValueScale(reward, 0.0 if centre_rewards else self.level / reward)


def value_scale(context: Context[ReplayConfig], name: str) -> ValueScale:
    """The scale of group `name`'s values before this update."""
    reward_scale = RewardScale.of(context.tensors[f"normaliser/{name}"])
    return reward_scale.value_scale(context.config.standardise_rewards, context.config.centre_rewards)


class ScaledRewards(NamedTuple):
    """Rewards in the scale of values, that scale, and the normaliser ``[4]`` updated with these rewards.

    A scaled value times `scale` is in units of reward. Scaled values are network outputs plus `offset`.
    """

    rewards: Array
    scale: float
    offset: float
    normaliser: Array


def scale_rewards(
    whole: Context[ReplayConfig],
    name: str,
    signal: LearningSignal,
    signal_of: Callable[[Context[ReplayConfig]], LearningSignal],
) -> ScaledRewards:
    """Scales the rewards of a minibatch, and updates the scale with the rewards of the rows to learn from.

    `signal_of` returns the learning signal of `whole`, the context with the round's own data.
    """
    old_scale = RewardScale.of(whole.tensors[f"normaliser/{name}"])
    new_scale = old_scale.update(signal.rewards[signal.loss_mask], lambda: _mean_return(whole, signal_of(whole)))
    scale = new_scale.value_scale(whole.config.standardise_rewards, whole.config.centre_rewards)
    number = signal.rewards.dtype.type
    centre = new_scale.statistics.centre if whole.config.centre_rewards else 0.0
    rewards = signal.rewards - number(centre) if centre else signal.rewards
    return ScaledRewards(rewards / number(scale.reward), *scale, new_scale.tensor)


def _mean_return(context: Context[ReplayConfig], signal: LearningSignal) -> float:
    """The mean discounted return, to the end of the episode or of the rollout, over the rows that are learned from."""
    episode_ends, gamma = context.batch.ended, context.config.discount
    returns = n_step_returns(signal.rewards, signal.terminal, episode_ends, gamma, len(episode_ends)).returns
    return float(returns[signal.loss_mask].mean(dtype=np.float64)) if signal.loss_mask.any() else 0.0
