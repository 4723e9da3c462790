"""Actions of a group's policies at the steps of a minibatch, as the inputs of critics, and the gradient through them.

Critics read a discrete action as its one-hot and a continuous one as recorded, in [-1, 1]. The gradient of a discrete
action is the gradient of the straight-through Gumbel-softmax. Its noise is drawn at the address (seed, round, "gumbel",
update, group), so all stages of an update use the same actions. The actions of a dead agent are all zeros.
"""

from typing import NamedTuple

import numpy as np

from marless.functions.algorithms.advantages import Flags
from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.ddpg.specs import DdpgConfig
from marless.functions.algorithms.engine import weights_of
from marless.functions.algorithms.metrics import ByAgent
from marless.functions.algorithms.off_policy.specs import kind_of
from marless.functions.algorithms.off_policy.target_networks import (
    alive_next,
    by_agent,
    group_outputs_after,
    legal_next,
    legal_rows,
    observation_inputs,
    rows_of,
)
from marless.functions.algorithms.stage import Context
from marless.functions.keys import group_name
from marless.functions.nn import gumbel
from marless.functions.nn.continuous import Deterministic
from marless.functions.nn.discrete import OneChoice
from marless.functions.nn.gumbel import Relaxed
from marless.functions.nn.heads import head_of
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits
from marless.functions.nn.networks import Trace, Weights
from marless.functions.randomness import generator

# The noise on target actions at most, in deviations: Fujimoto et al. have 0.2, cut off at 0.5.
MOST_SMOOTHING = 2.5


class PolicyActions(NamedTuple):
    """Columns ordered by agent: `actions` ``[T, n * E, width]``, the network's `outputs` in the same shape, and its
    `trace`. `transform` turns outputs into actions. For discrete actions it has a row for each column of each step."""

    actions: Array
    outputs: Array
    trace: Trace
    transform: Deterministic | Relaxed

    def backward(self, gradient: Array) -> Array:
        """d loss / d outputs, given d loss / d actions, both ``[T, n * E, width]``."""
        if isinstance(self.transform, Deterministic):
            return self.transform.greedy_gradient(self.actions, gradient)
        return self.transform.backward(rows_of(gradient)).reshape(gradient.shape)


def policy_actions(context: Context[DdpgConfig], group: int, weights: Weights) -> PolicyActions:
    """The actions of the policy with these weights at the minibatch's steps."""
    head = _deterministic(context, group)
    outputs, trace = observation_inputs(context, group).unroll(weights)
    if head is not None:
        return PolicyActions(head.greedy(outputs), outputs, trace, head)
    rng = generator(context.seed, context.round, "gumbel", context.update, group)
    noise = gumbel.noise(rng.random(rows_of(outputs).shape, dtype=np.float32)).astype(outputs.dtype)
    relaxation = gumbel.relax(rows_of(outputs), noise, context.config.temperature, legal_rows(context, group))
    return PolicyActions(relaxation.hard.reshape(outputs.shape), outputs, trace, relaxation)


def entropy_metrics(
    context: Context[DdpgConfig], group: int, actions: PolicyActions, loss_mask: Flags
) -> dict[str, float]:
    """The policy entropy of the group and of each agent, in nats, over the rows of `loss_mask` ``[n, T, E]``, or {} for
    continuous actions."""
    if isinstance(actions.transform, Deterministic):
        return {}
    agents, width = members(context.team, group), actions.outputs.shape[-1]
    logits = mask_logits(rows_of(actions.outputs), legal_rows(context, group))
    rows = by_agent(OneChoice(width).entropy(logits, None).reshape(actions.outputs.shape[:2]), len(agents))
    return ByAgent.of(agents, loss_mask).means({"entropy": rows[loss_mask]})


def next_actions(context: Context[DdpgConfig], group: int) -> Array:
    """The target policy's actions after every step ``[n, T, E, width]``: the most probable discrete action, or a
    continuous action with noise. The noise smooths targets over similar actions (Fujimoto et al., 2018, section
    5.3)."""
    agents, head = members(context.team, group), _deterministic(context, group)
    outputs = group_outputs_after(context, "target", group)
    if head is not None:
        actions = _smooth(context, group, head.greedy(outputs))
    else:
        legal = legal_next(context, agents)
        actions = gumbel.greedy(rows_of(outputs), None if legal is None else rows_of(legal)).reshape(outputs.shape)
    return np.asarray(actions * alive_next(context, agents)[..., None])


def _smooth(context: Context[DdpgConfig], group: int, actions: Array) -> Array:
    """Actions of [-1, 1] with normal noise, cut off, which is drawn at the address (seed, round, "smoothing", update,
    group)."""
    if not (spread := context.config.target_noise):
        return actions
    rng = generator(context.seed, context.round, "smoothing", context.update, group)
    noise = spread * rng.standard_normal(actions.shape, dtype=np.float32).astype(actions.dtype)
    return np.asarray(np.clip(actions + np.clip(noise, -MOST_SMOOTHING * spread, MOST_SMOOTHING * spread), -1, 1))


def current_actions(context: Context[DdpgConfig], group: int) -> Array:
    """The policy's actions at every step ``[n, T, E, width]``."""
    agents = members(context.team, group)
    weights = weights_of(context, f"policy/{group_name(group)}")
    actions = by_agent(policy_actions(context, group, weights).actions, len(agents))
    return actions * context.batch.alive[agents][..., None]


def _deterministic(context: Context[DdpgConfig], group: int) -> Deterministic | None:
    head = head_of(kind_of(context.spec, members(context.team, group)[0]), stochastic=False)
    return head if isinstance(head, Deterministic) else None
