"""The units in which values are learned of rewards that may be large, small, or far from 0."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from functions.nn.mlp import Array
from functions.nn.normaliser import Normaliser

# Rewards seen count for about so many updates in their scale.
_MEMORY = 0.999


class Units(NamedTuple):
    """A reward of `reward` is 1 in the units of values, and what networks give lies `offset` below the value."""

    reward: float
    offset: float


@dataclass(frozen=True)
class RewardScale:
    """The running standard deviation of rewards, and the `level` of values in the first round: their mean then.

    Values are divided by the former, and what networks give stands for the value less the latter. That saves them
    thousands of steps that only lift or lower all values alike, on the way to which hidden units saturate. Unlike
    rewards that are centred, as in Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms
    in Cooperative Tasks", 2021, it leaves what ending an episode is worth as it is. The level stays as it was, because
    every change of it would have to be learned.
    """

    seen: Normaliser = field(default_factory=Normaliser)
    level: float = 0.0

    @classmethod
    def of(cls, tensor: Array) -> Self:
        """That of a tensor ``[4]``."""
        *seen, level = tensor.tolist()
        return cls(Normaliser(*seen), level)

    @property
    def tensor(self) -> Array:
        """Mean, mean square, weight and level ``[4]``; zeros before anything was seen."""
        return np.array([self.seen.mean, self.seen.square, self.seen.weight, self.level])

    def updated(self, rewards: Array, level: Callable[[], float]) -> Self:
        """The scale after seeing `rewards` once; as it was where there are none. Asks for the level the first time."""
        if not rewards.size:
            return self
        seen = self.seen.updated(rewards, _MEMORY)
        return type(self)(seen, self.level if self.seen.weight else level())

    def units(self, standardise_rewards: bool) -> Units:
        """Without `standardise_rewards` rewards are as they are."""
        reward = self.seen.scale if standardise_rewards else 1.0
        return Units(reward, self.level / reward)
