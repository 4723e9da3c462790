"""Independent Q-learning: every group values its agents' own actions by their own observations alone.

Tan, "Multi-Agent Reinforcement Learning: Independent vs. Cooperative Agents", 1993, with networks after Mnih et al.,
2015, and double Q-learning after van Hasselt et al., 2016. Agents learn from the reward of their side by default, see
Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from collections.abc import Mapping
from functools import partial

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.metrics import ByAgent, due
from marless.functions.algorithms.off_policy.overestimation import overestimation
from marless.functions.algorithms.off_policy.replay_minibatch import learning_signal
from marless.functions.algorithms.off_policy.reward_scale import scale_rewards, value_scale
from marless.functions.algorithms.off_policy.td import multi_step_returns, td_loss
from marless.functions.algorithms.stage import Context, Stage, StageResult
from marless.functions.algorithms.value.priorities import Draw, PriorityUpdate
from marless.functions.algorithms.value.specs import IqlConfig
from marless.functions.algorithms.value.utilities import agent_utilities, initialise, train_step
from marless.functions.keys import group_name

__all__ = ["STAGES", "initialise"]


def policy(context: Context[IqlConfig], group: int) -> StageResult:
    """One step of the group's network towards its agents' TD targets."""
    metrics = _overestimation(context, group) if due(context) else {}
    name, config, agents = group_name(group), context.config, members(context.team, group)
    draw = Draw.sample(context, name)
    minibatch = draw.minibatch(context)
    signal_of = partial(learning_signal, agents=agents, team=config.reward == "team")
    utilities, signal = agent_utilities(minibatch, group), signal_of(minibatch)
    rewards, scale, offset, normaliser = scale_rewards(context, name, signal, signal_of)
    multi_step = multi_step_returns(rewards, signal.terminal, minibatch.batch.ended, config)
    q_taken, targets = utilities.q_taken + offset, multi_step.targets(utilities.future + offset)
    loss = td_loss(
        q_taken, targets.astype(q_taken.dtype), config.huber_delta, draw.importance(q_taken), signal.loss_mask
    )
    tensors, step_metrics = train_step(minibatch, group, utilities, loss.grad_output, int(signal.loss_mask.sum()))
    if due(context):
        rows = {"td_loss": loss.rows[signal.loss_mask], "value": scale * q_taken[signal.loss_mask]}
        metrics |= step_metrics | ByAgent.of(agents, signal.loss_mask).means(rows)
    update = PriorityUpdate.of(draw, config, loss.difference, signal.loss_mask)
    priorities = update.apply(minibatch, name) if update else {}
    return StageResult({**tensors, f"normaliser/{name}": normaliser, **priorities}, metrics)


def _overestimation(context: Context[IqlConfig], group: int) -> dict[str, float]:
    agents, name, utilities = members(context.team, group), group_name(group), agent_utilities(context, group)
    signal = learning_signal(context, agents, context.config.reward == "team")
    offset = value_scale(context, name).offset
    return overestimation(context, name, utilities.q_taken + offset, utilities.future + offset, signal, agents)


STAGES: Mapping[str, Stage] = {"policy": policy}
