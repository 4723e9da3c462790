"""Soft critics: their training, and the gradient of their values with respect to the actions.

The value is the lesser one of two critics. The return of a soft policy includes the entropies of all later steps, times
the temperature. An agent's critic counts only its own, so critics in a team differ (Iqbal and Sha,
"Actor-Attention-Critic for Multi-Agent Reinforcement Learning", 2019).
"""

from typing import NamedTuple

import numpy as np

from marless.functions.algorithms.off_policy.critic_inputs import Actions, CriticInputs, OwnActions
from marless.functions.algorithms.off_policy.critics import critic_overestimation, learn_values
from marless.functions.algorithms.off_policy.replay_minibatch import learning_signal
from marless.functions.algorithms.off_policy.specs import View
from marless.functions.algorithms.off_policy.target_networks import NetworkInputs, by_column
from marless.functions.algorithms.sac.specs import SacConfig
from marless.functions.algorithms.sac.temperature import temperature
from marless.functions.algorithms.stage import Context, StageResult
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Weights


class Followed(NamedTuple):
    """The `actions` after every step of all agents that critics see, by agent, and the `entropy` of the own agents'
    policies ``[n, T, E]``."""

    actions: Actions
    entropy: Array


def train_step(
    view: View, context: Context[SacConfig], group: int, now: Array, after: Followed, after_own: Followed | None
) -> StageResult:
    """One step of the group's critics and their targets, and d policy loss / d policy's actions, without the entropy.

    `context` is not a minibatch's. `now` ``[n, T, E, width]`` are samples of the policy's actions at the minibatch's
    steps. `after` are the actions that follow these steps, and `after_own` follow all of the round's own steps, in its
    last update.
    """
    name, metrics = group_name(group), dict[str, float]()
    weight = temperature(context, name)
    if after_own is not None:
        metrics = critic_overestimation(view, context, group, after_own.actions, weight, after_own.entropy)
    update = learn_values(view, context, group, after.actions, weight * after.entropy)
    gradient = _action_gradient(update.weights, update.inputs, update.steps, now)
    return StageResult({**update.tensors, f"gradient/{name}": gradient}, metrics | update.metrics)


def _action_gradient(weights: list[Weights], inputs: CriticInputs, steps: NetworkInputs, own_actions: Array) -> Array:
    """d(-mean Q) / d `own_actions` of living agents' rows ``[n, T, E, width]``. Q is the lesser value, with recorded
    actions of others."""
    loss_mask = by_column(learning_signal(inputs.context, inputs.agents, team=False).loss_mask)
    share = loss_mask * own_actions.dtype.type(-1 / max(1, int(loss_mask.sum())))
    rows = [OwnActions.of(net, inputs, steps, own_actions) for net in weights]
    least = np.argmin([part.values(net) for part, net in zip(rows, weights, strict=True)], axis=0)
    pairs = enumerate(zip(rows, weights, strict=True))
    return np.asarray(np.add.reduce([part.gradient(net, share * (least == index)) for index, (part, net) in pairs]))
