"""The overestimation of returns by a value function: a metric that training does not use.

The maximum of several uncertain values is biased upwards, and targets computed from it propagate the bias. Thrun and
Schwartz, "Issues in Using Function Approximation for Reinforcement Learning", 1993. Van Hasselt et al., "Deep
Reinforcement Learning with Double Q-learning", 2016. It is measured in the round's last update on the round's own data:
its rewards are known to the end of each episode or rollout.
"""

from collections.abc import Sequence

from marless.functions.algorithms.advantages import LearningSignal
from marless.functions.algorithms.metrics import ByAgent
from marless.functions.algorithms.off_policy.reward_scale import value_scale
from marless.functions.algorithms.off_policy.specs import ReplayConfig
from marless.functions.algorithms.off_policy.td import n_step_returns
from marless.functions.algorithms.stage import Context
from marless.functions.nn.layers import Array


def overestimation(
    context: Context[ReplayConfig],
    name: str,
    values: Array,
    future: Array,
    signal: LearningSignal,
    agents: Sequence[int] = (),
) -> dict[str, float]:
    """The mean of value minus discounted return over the rows that are learned from, in units of reward, as a metric.

    `context` has the round's own data. `values` of the actions taken and `future`, the target network's values after
    each step, are in the scale of group `name`'s values. All are ``[n, T, E]``, of a side ``[T, E]``. Where a time
    limit or the end of the round cut an episode off, the target network's value is added for the rest. Actors explored,
    so even exact values of the greedy policy are higher. Several `agents` also have a metric each.
    """
    config, episode_ends = context.config, context.batch.ended
    scale = value_scale(context, name).reward
    rewards = signal.rewards / signal.rewards.dtype.type(scale)
    returns = n_step_returns(rewards, signal.terminal, episode_ends, config.discount, len(episode_ends)).targets(future)
    gaps = scale * (values - returns)
    return ByAgent.of(agents, signal.loss_mask).means({"overestimation": gaps[signal.loss_mask]})
