"""Value decomposition: a side's joint action value is the sum of its agents' utilities.

Sunehag et al., "Value-Decomposition Networks For Cooperative Multi-Agent Learning", 2018. Only the sum couples the
agents in an update: given the joint error, each network's gradient depends on that network alone.
"""

from collections.abc import Mapping

import numpy as np

from marless.functions.algorithms.metrics import OWN, ByAgent, due
from marless.functions.algorithms.off_policy.overestimation import overestimation
from marless.functions.algorithms.off_policy.replay_minibatch import joint_signal, learning_signal
from marless.functions.algorithms.off_policy.reward_scale import value_scale
from marless.functions.algorithms.off_policy.td import joint_sum, multi_step_returns
from marless.functions.algorithms.stage import Context, Stage, StageResult
from marless.functions.algorithms.value.decomposition_stages import (
    Mixing,
    SideUtilities,
    initialise,
    mixed_agents,
    policy,
    utility,
)
from marless.functions.algorithms.value.specs import VdnConfig
from marless.functions.keys import group_name

__all__ = ["STAGES", "initialise"]


def mix(context: Context[VdnConfig], group: int) -> StageResult:
    """The loss's gradient for every agent of the side that the group leads, normaliser and metrics, else {}."""
    if not (side := mixed_agents(context, group)):
        return StageResult({}, {})
    metrics = _overestimation(context, side, group) if due(context) else {}
    mixing, config = Mixing.load(context, group, side), context.config
    batch, signal, rewards = mixing.context.batch, mixing.signal, mixing.rewards
    alive = batch.alive[side]
    # Every agent gets an equal share of the offset.
    utilities = mixing.utilities.shift(rewards.offset / len(side))
    # The side's reward counts once, and each agent's own value is bootstrapped until that agent terminates.
    multi_step = multi_step_returns(rewards.rewards, signal.terminal, batch.ended, config)
    own_signal = learning_signal(mixing.context, side, team=False)
    no_rewards = np.zeros_like(utilities.future)
    bootstrap = multi_step_returns(no_rewards, own_signal.terminal, batch.ended, config).targets(utilities.future)
    joint = joint_sum(utilities.q_taken, alive)
    loss = mixing.loss(joint, multi_step.returns + joint_sum(bootstrap, alive))
    if due(context):
        metrics |= mixing.metrics(loss, joint)
        metrics |= ByAgent.of(side, own_signal.loss_mask).means(
            {"value": rewards.scale * utilities.q_taken[own_signal.loss_mask]}
        )
    tensors = mixing.group_tensors(loss, loss.grad_output * alive)
    return StageResult({**tensors, f"normaliser/{group_name(group)}": rewards.normaliser}, metrics)


def _overestimation(context: Context[VdnConfig], side: list[int], group: int) -> dict[str, float]:
    alive, name = context.batch.alive[side], group_name(group)
    alive_next = alive & ~learning_signal(context, side, team=False).terminal
    utilities = SideUtilities.load(context, side, OWN).shift(value_scale(context, name).offset / len(side))
    joint, future = joint_sum(utilities.q_taken, alive), joint_sum(utilities.future, alive_next)
    return overestimation(context, name, joint, future, joint_signal(context, side))


STAGES: Mapping[str, Stage] = {"utility": utility, "mix": mix, "policy": policy}
