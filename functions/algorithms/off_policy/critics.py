"""Critics of off-policy actor-critic methods in training: one, or the lesser value of two.

An uncertain value is biased upwards when maximised, and the lesser of two values less so. Fujimoto et al., "Addressing
Function Approximation Error in Actor-Critic Methods" (TD3), 2018. Both critics learn the same targets from the same
minibatches, and differ by their first weights.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from marless.functions.algorithms.advantages import Flags
from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.engine import weights_of
from marless.functions.algorithms.metrics import ByAgent, due
from marless.functions.algorithms.new_networks import NetworkPart, as_target, new_network
from marless.functions.algorithms.off_policy.critic_inputs import Actions, CriticInputs, values_after
from marless.functions.algorithms.off_policy.overestimation import overestimation
from marless.functions.algorithms.off_policy.replay_minibatch import learning_signal, with_minibatch
from marless.functions.algorithms.off_policy.reward_scale import scale_rewards, value_scale
from marless.functions.algorithms.off_policy.specs import CriticConfig, View
from marless.functions.algorithms.off_policy.target_networks import (
    NetworkInputs,
    by_agent,
    by_column,
    grad_output_for,
    update_target,
)
from marless.functions.algorithms.off_policy.td import TdLoss, one_step, td_loss
from marless.functions.algorithms.stage import Context
from marless.functions.algorithms.trainable import Trainable
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Weights
from marless.functions.nn.shape import Network


def new_critics(
    config: CriticConfig, shape: tuple[int, ...], network: Network, group: int, rng: np.random.Generator
) -> dict[str, Array]:
    """New critics of a group, with their targets and zero moments. `shape` is the shape of their first input."""
    tensors: dict[str, Array] = {}
    for part in config.critics:
        weights = new_network(config, NetworkPart(part, shape, 1.0), network, group, rng)
        tensors |= weights | as_target(weights, part, f"{part}_target")
    return tensors


class CriticRows(NamedTuple):
    """The rows that critics learn from: `steps` of some `agents`, and `loss_mask` ``[n, T, E]``. Values are outputs
    plus the `offset` of the reward scale."""

    steps: NetworkInputs
    agents: Sequence[int]
    loss_mask: Flags
    offset: float

    def value(self, outputs: Array) -> Array:
        """The value of the actions taken ``[n, T, E]``, from outputs ``[T, n * E, 1]``."""
        return by_agent(outputs[..., 0], len(self.agents)) + self.offset


class CriticStep(NamedTuple):
    """A step of all critics. `loss` and `value` ``[n, T, E]`` belong to the first critic before the step, `weights` are
    after it. The gradients' norms are metrics."""

    loss: TdLoss
    value: Array
    weights: list[Weights]
    tensors: dict[str, Array]
    norms: dict[str, float]


def critic_step(minibatch: Context[CriticConfig], name: str, rows: CriticRows, targets: Array) -> CriticStep:
    """One step of each critic of group `name` towards `targets` ``[n, T, E]``, and then one of its target."""
    config, losses, values, weights = minibatch.config, [], [], []
    tensors, norms = dict[str, Array](), dict[str, float]()
    for part in config.critics:
        network = Trainable.load(minibatch, part, name, config.critic_lr)
        outputs, trace = rows.steps.unroll(network.weights)
        values.append(rows.value(outputs))
        losses.append(td_loss(values[-1], targets.astype(outputs.dtype), config.huber_delta, alive=rows.loss_mask))
        grad_output = by_column(losses[-1].grad_output)[..., None]
        norms[f"{part}_grad_norm"] = network.descend(trace, grad_output_for(network.weights, grad_output))
        tensors |= network.tensors(part, name)
        follow = update_target(minibatch, tensors, part, f"{part}_target", name)
        tensors |= follow if policies_move(minibatch) else current_tensors(minibatch, (f"{part}_target",), name)
        weights.append(network.weights)
    return CriticStep(losses[0], values[0], weights, tensors, norms)


class Learned(NamedTuple):
    """The result of an update of a group's critics: their `inputs` in the minibatch, the `steps` of these, the new
    `weights`, tensors and metrics."""

    inputs: CriticInputs
    steps: NetworkInputs
    weights: list[Weights]
    tensors: dict[str, Array]
    metrics: dict[str, float]


def learn_values(
    view: View, context: Context[CriticConfig], group: int, after: Actions, bonus: Array | float = 0.0
) -> Learned:
    """One step of the group's critics and their targets towards one-step returns.

    `context` is not a minibatch's. `after` are the actions after the minibatch's steps, and `bonus` ``[n, T, E]`` is
    added to their values.
    """
    minibatch, name, agents = with_minibatch(context), group_name(group), members(context.team, group)
    config = context.config
    signal_of = partial(learning_signal, agents=agents, team=config.reward == "team")
    inputs, signal = CriticInputs(view, minibatch, agents), signal_of(minibatch)
    rewards, scale, offset, normaliser = scale_rewards(context, name, signal, signal_of)
    steps = inputs.steps()
    future = least_after(minibatch, name, inputs, steps, after) + offset + bonus
    targets = one_step(rewards, future, signal.terminal, config.discount)
    step = critic_step(minibatch, name, CriticRows(steps, agents, signal.loss_mask, offset), targets)
    metrics: dict[str, float] = {}
    if due(context):
        rows = {"td_loss": step.loss.rows[signal.loss_mask], "value": scale * step.value[signal.loss_mask]}
        metrics = {**step.norms, **ByAgent.of(agents, signal.loss_mask).means(rows)}
    return Learned(inputs, steps, step.weights, step.tensors | {f"normaliser/{name}": normaliser}, metrics)


def policies_move(context: Context[CriticConfig]) -> bool:
    """Return True if policies and targets take a step in this update."""
    updates = (context.round - context.age) * context.config.updates_per_round + context.update + 1
    return updates % context.config.target_delay == 0


def current_tensors(context: Context[CriticConfig], parts: Sequence[str], name: str) -> dict[str, Array]:
    """The tensors of parts of group `name` as they are."""
    prefixes = tuple(f"{part}/{name}/" for part in parts)
    return {key: array for key, array in context.tensors.items() if key.startswith(prefixes)}


def least_value(context: Context[CriticConfig], name: str, rows: CriticRows) -> Array:
    """The least of the critics' values of the actions taken ``[n, T, E]``."""
    weights = [weights_of(context, f"{part}/{name}") for part in context.config.critics]
    return _least([rows.value(rows.steps.unroll(critic)[0]) for critic in weights])


def least_after(
    context: Context[CriticConfig], name: str, inputs: CriticInputs, steps: NetworkInputs, actions: Actions
) -> Array:
    """The least of the target critics' outputs after each step ``[n, T, E]``, with these `actions` after it."""
    weights = [weights_of(context, f"{part}_target/{name}") for part in context.config.critics]
    return _least([values_after(critic, inputs, steps, actions) for critic in weights])


def critic_overestimation(
    view: View,
    context: Context[CriticConfig],
    group: int,
    after: Actions,
    temperature: float = 0.0,
    entropy: Array | None = None,
) -> dict[str, float]:
    """See `overestimation`. `context` has the round's own data, and `after` the actions after its steps.

    With the `entropy` ``[n, T, E]`` of policies after each step, returns and values are soft: they include the
    discounted entropies of later steps, times the `temperature`.
    """
    name, agents, config = group_name(group), members(context.team, group), context.config
    inputs, scale = CriticInputs(view, context, agents), value_scale(context, name)
    signal, steps = learning_signal(context, agents, config.reward == "team"), inputs.steps()
    future = least_after(context, name, inputs, steps, after) + scale.offset
    if entropy is not None:
        bonus = config.discount * scale.reward * temperature * entropy * ~signal.terminal
        signal = signal._replace(rewards=signal.rewards + bonus)
    value = least_value(context, name, CriticRows(steps, agents, signal.loss_mask, scale.offset))
    return overestimation(context, name, value, future, signal, agents)


def _least(values: Sequence[Array]) -> Array:
    return np.asarray(np.minimum.reduce(values))
