"""Utility networks, which value every action of an agent, and their training: the common part of IQL, VDN and QMIX.

`policy` is the network for acting: agents take its highest-valued actions. `target` is its slower copy.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.advantages import Flags
from marless.functions.algorithms.agent_inputs import members, observation_shape
from marless.functions.algorithms.engine import engine_of, weights_of
from marless.functions.algorithms.new_networks import NetworkPart, as_target, new_network
from marless.functions.algorithms.off_policy.reward_scale import RewardScale
from marless.functions.algorithms.off_policy.target_networks import (
    NetworkInputs,
    by_agent,
    by_column,
    grad_output_for,
    legal_next,
    next_outputs,
    observation_inputs,
    update_target,
)
from marless.functions.algorithms.off_policy.td import double_q, gather_actions, scatter_actions
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context
from marless.functions.algorithms.trainable import Trainable
from marless.functions.algorithms.value import priorities
from marless.functions.algorithms.value.conservative import ConservativeGap
from marless.functions.algorithms.value.specs import UtilityConfig, utility_network
from marless.functions.environments.base import EnvSpec
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits
from marless.functions.nn.networks import Trace
from marless.functions.randomness import generator


def initialise(spec: EnvSpec, team: Team, config: UtilityConfig, seed: int, group: int) -> dict[str, Array]:
    """A group's network, target, moments and normaliser at round 0. Raises `BadRequest` for unsupported actions."""
    name, network = group_name(group), utility_network(spec, team, config, group)
    part = NetworkPart("policy", observation_shape(spec, members(team, group)[0]), 1.0, acts=True)
    weights = new_network(config, part, network, group, generator(seed, "initialise", group))
    return {
        **weights,
        **as_target(weights, "policy", "target"),
        f"normaliser/{name}": RewardScale().tensor,
        **priorities.initial_priorities(config, name),
    }


class NextValues(NamedTuple):
    """The values of all actions after each step ``[n, T, E, actions]``, by the target network and by the network that
    picks the next action. `legal` flags the legal actions, or is None if all are."""

    target: Array
    picking: Array
    legal: Flags | None

    @property
    def actions(self) -> NDArray[np.integer]:
        """The next actions ``[n, T, E]``."""
        return np.asarray(mask_logits(self.picking, self.legal).argmax(axis=-1))

    @property
    def best(self) -> Array:
        """The highest value of the target network ``[n, T, E]``."""
        return np.asarray(mask_logits(self.target, self.legal).max(axis=-1))


class Utilities(NamedTuple):
    """The utilities of a group's n agents in a minibatch ``[n, T, E]``. `q_taken` are of their actions, and `future` of
    their next actions by the target network, from the values `after`. Training needs `values` ``[T, n * E, actions]``
    and `trace`."""

    q_taken: Array
    future: Array
    values: Array
    trace: Trace
    network: Trainable
    after: NextValues | None


def agent_utilities(context: Context[UtilityConfig], group: int, with_future: bool = True) -> Utilities:
    """The utilities of the group's agents in the minibatch. With `with_future` off, `future` has no meaning."""
    agents = members(context.team, group)
    network, inputs = Trainable.load(context, "policy", group_name(group)), observation_inputs(context, group)
    values, trace = inputs.unroll(network.weights)
    q_taken = gather_actions(by_agent(values, len(agents)), recorded_actions(context, agents))
    if not with_future:
        return Utilities(q_taken, q_taken, values, trace, network, None)
    after = _next_values(context, group, inputs, network, values, trace)
    return Utilities(q_taken, double_q(after.picking, after.target, after.legal), values, trace, network, after)


def train_step(
    context: Context[UtilityConfig], group: int, utilities: Utilities, gradient: Array, steps: int
) -> tuple[dict[str, Array], dict[str, float]]:
    """The group's tensors and metrics after one step. `gradient` is d loss / d taken ``[n, T, E]``.

    `steps` is how many rows the loss is a mean over.
    """
    name, network, values, config = group_name(group), utilities.network, utilities.values, context.config
    agents, metrics = members(context.team, group), dict[str, float]()
    actions = by_column(recorded_actions(context, agents))
    grad_output = scatter_actions(by_column(gradient).astype(values.dtype), actions, values.shape[-1])
    if config.cql_alpha:
        gap = _conservative_gap(context, agents, utilities)
        metrics = {"conservative_gap": gap.mean}
        grad_output += values.dtype.type(config.cql_alpha / max(1, steps)) * by_column(gap.gradient)
    norm = network.descend(utilities.trace, grad_output_for(network.weights, grad_output))
    tensors = network.tensors("policy", name)
    target = update_target(context, tensors, "policy", "target", name)
    return {**tensors, **target}, {**metrics, "policy_grad_norm": norm}


def _conservative_gap(context: Context[UtilityConfig], agents: list[int], utilities: Utilities) -> ConservativeGap:
    """The gaps of the living agents' rows ``[n, T, E]`` after the burn-in."""
    batch = context.batch
    legal = None if batch.masks is None else np.stack([batch.of(batch.masks, agent) for agent in agents])
    loss_mask = batch.alive[agents].copy()
    loss_mask[:, : context.config.burn_in] = False
    values, arithmetic = by_agent(utilities.values, len(agents)), engine_of(context.config).arithmetic
    return ConservativeGap.of(values, recorded_actions(context, agents), legal, loss_mask, arithmetic)


def recorded_actions(context: Context[AlgorithmConfig], agents: list[int]) -> Array:
    """Return the actions ``[n, T, E]``. A dead agent's recorded action is action 0, its only legal action."""
    batch = context.batch
    return np.stack([batch.of(batch.actions, agent) for agent in agents]).astype(np.int64)


def _next_values(
    context: Context[UtilityConfig], group: int, inputs: NetworkInputs, network: Trainable, values: Array, trace: Trace
) -> NextValues:
    """With `double` the online network picks the next action (van Hasselt et al., 2016, eq. 4)."""
    agents, needs_steps = members(context.team, group), context.config.recurrent or len(context.batch.ended) > 1
    target = weights_of(context, f"target/{group_name(group)}")
    steps = inputs.unroll(target) if needs_steps else (None, None)
    target_values = next_outputs(context, target, inputs, len(agents), *steps)
    picking = target_values
    if context.config.double:
        current = (values, trace) if needs_steps else (None, None)
        picking = next_outputs(context, network.weights, inputs, len(agents), *current)
    return NextValues(target_values, picking, legal_next(context, agents))
