"""Soft critics: their training, and the gradient of their values with respect to the actions.

The value is the lesser one of two critics. The return of a soft policy has the entropies of all later steps, times the
temperature: an agent's own, so critics of different agents of a team differ (as in Iqbal and Sha,
"Actor-Attention-Critic for Multi-Agent Reinforcement Learning", 2019).
"""

from typing import NamedTuple

import numpy as np

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.off_policy.critic_inputs import Actions, CriticInputs, OwnActions
from marless.functions.algorithms.off_policy.critics import CriticRows, learn_values, least_after, least_value
from marless.functions.algorithms.off_policy.overestimation import overestimation
from marless.functions.algorithms.off_policy.replay_minibatch import learning_signal
from marless.functions.algorithms.off_policy.reward_scale import value_scale
from marless.functions.algorithms.off_policy.specs import View
from marless.functions.algorithms.off_policy.target_networks import NetworkInputs, by_column
from marless.functions.algorithms.sac.specs import SacConfig
from marless.functions.algorithms.sac.temperature import temperature
from marless.functions.algorithms.stage import Context, StageResult
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Weights


class Followed(NamedTuple):
    """What follows every step: the `actions` of all agents that critics see, by agent, and the `entropy` of the
    policies of the group's own agents ``[n, T, E]``."""

    actions: Actions
    entropy: Array


def train_step(
    view: View, context: Context[SacConfig], group: int, now: Array, after: Followed, after_own: Followed | None
) -> StageResult:
    """One step of the group's critics and their targets, and d policy loss / d policy's actions, without the entropy.

    `context` is not a minibatch's. `now` ``[n, T, E, width]`` are samples of the policy's actions at the minibatch's
    steps, `after` is what follows these steps, and `after_own` what follows all of the round's own steps, in its
    last update.
    """
    metrics = {} if after_own is None else _overestimation(view, context, group, after_own)
    name = group_name(group)
    update = learn_values(view, context, group, after.actions, temperature(context, name) * after.entropy)
    gradient = _action_gradient(update.weights, update.inputs, update.steps, now)
    return StageResult({**update.tensors, f"gradient/{name}": gradient}, metrics | update.metrics)


def _action_gradient(weights: list[Weights], inputs: CriticInputs, steps: NetworkInputs, own_actions: Array) -> Array:
    """d(-mean Q) / d `own_actions` of living agents' rows ``[n, T, E, width]``, Q the lesser value; the others' actions
    are as recorded."""
    loss_mask = by_column(learning_signal(inputs.context, inputs.agents, team=False).loss_mask)
    share = loss_mask * own_actions.dtype.type(-1 / max(1, int(loss_mask.sum())))
    rows = [OwnActions.of(net, inputs, steps, own_actions) for net in weights]
    least = np.argmin([part.values(net) for part, net in zip(rows, weights, strict=True)], axis=0)
    pairs = enumerate(zip(rows, weights, strict=True))
    return np.asarray(np.add.reduce([part.gradient(net, share * (least == index)) for index, (part, net) in pairs]))


def _overestimation(view: View, context: Context[SacConfig], group: int, after: Followed) -> dict[str, float]:
    """Of soft values: returns have the discounted entropies of later steps, as values do."""
    name, agents, config = group_name(group), members(context.team, group), context.config
    inputs, scale = CriticInputs(view, context, agents), value_scale(context, name)
    signal, steps = learning_signal(context, agents, config.reward == "team"), inputs.steps()
    future = least_after(context, name, inputs, steps, after.actions) + scale.offset
    bonus = config.gamma * scale.reward * temperature(context, name) * after.entropy * ~signal.terminal
    soft = signal._replace(rewards=signal.rewards + bonus)
    value = least_value(context, name, CriticRows(steps, agents, signal.loss_mask, scale.offset))
    return overestimation(context, name, value, future, soft, agents)
