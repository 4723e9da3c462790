"""By how much a value function overestimates the returns: a diagnosis, from which nothing is learned.

The greatest of several uncertain values is too high more often than too low, and targets made of it pass that on:
Thrun and Schwartz, "Issues in Using Function Approximation for Reinforcement Learning", 1993; van Hasselt et al., "Deep
Reinforcement Learning with Double Q-learning", 2016. It is measured where it costs least and is exact: in the round's
last update, on all that the round itself played, whose rewards are known to the end of every episode.
"""

from collections.abc import Sequence

from functions.algorithms.advantages import LearningSignal
from functions.algorithms.base import Context
from functions.algorithms.metrics import ByAgent
from functions.algorithms.off_policy.replay import ReplayConfig
from functions.algorithms.off_policy.reward_scale import value_scale
from functions.algorithms.off_policy.td import n_step_returns
from functions.nn.mlp import Array


def overestimation(
    context: Context[ReplayConfig],
    name: str,
    values: Array,
    future: Array,
    signal: LearningSignal,
    agents: Sequence[int] = (),
) -> dict[str, float]:
    """The mean of value minus discounted return over the rows that are learned from, in units of reward, as a metric.

    `context` has the round's own data; `values` of the actions taken and `future`, the target network's values after
    each step, are in the scale of group `name`'s values. All are ``[n, T, E]``, of a side ``[T, E]``. Where a time
    limit or the round cut an episode off, the target network's value stands for the rest. Actors explored, so even
    exact values of the greedy policy are higher. Of several `agents` there is a metric each as well.
    """
    config, ended = context.config, context.batch.ended
    scale = value_scale(context, name).reward
    rewards = signal.rewards / signal.rewards.dtype.type(scale)
    returns = n_step_returns(rewards, signal.terminal, ended, config.gamma, len(ended)).targets(future)
    gaps = scale * (values - returns)
    return ByAgent.of(agents, signal.learned).means({"overestimation": gaps[signal.learned]})
