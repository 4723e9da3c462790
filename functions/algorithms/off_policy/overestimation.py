"""How much more a value function promises than then came: a diagnosis, from which nothing is learned.

The greatest of several uncertain values is more often too high than too low, and targets made of it pass that on:
Thrun and Schwartz, "Issues in Using Function Approximation for Reinforcement Learning", 1993; van Hasselt et al., "Deep
Reinforcement Learning with Double Q-learning", 2016. It is measured where it costs least and is exact: in the round's
last update, on all that the round itself played, whose discounted rewards are known to the end of every episode.
"""

from collections.abc import Sequence

from functions.algorithms.advantages import LearningSignal
from functions.algorithms.base import Context
from functions.algorithms.metrics import ByAgent
from functions.algorithms.off_policy.replay import ReplayConfig
from functions.algorithms.off_policy.reward_scale import RewardScale
from functions.algorithms.off_policy.td import look_ahead
from functions.nn.mlp import Array


def overestimation(
    context: Context[ReplayConfig],
    normaliser: str,
    values: Array,
    future: Array,
    signal: LearningSignal,
    agents: Sequence[int] = (),
) -> dict[str, float]:
    """The mean of value minus what followed over the rows that count, in units of reward, as a figure.

    `context.batch_size` is the round's own data; `values` and `future`, those of the actions taken and the target's
    after each step, are in the units that `normaliser` has made of the rewards of `signal`. All are ``[n, T, E]``, of a
    side ``[T, E]``. What followed is the discounted sum of rewards to the end of the episode; where a time limit or the
    round cut it off, the target's value stands for the rest. Actors explored in it, so that even a right value of
    acting greedily is higher. Of several `agents` there is a figure each as well.
    """
    config, ended = context.config, context.batch.ended
    scale = RewardScale.of(context.tensors[normaliser]).units(config.standardise_rewards).reward
    rewards = signal.rewards / signal.rewards.dtype.type(scale)
    followed = look_ahead(rewards, signal.terminal, ended, config.gamma, len(ended)).targets(future)
    gaps = scale * (values - followed)
    return ByAgent.of(agents, signal.learned).means({"overestimation": gaps[signal.learned]})
