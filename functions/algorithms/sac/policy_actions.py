"""Actions of a group's soft policies at and after the steps of a minibatch.

Samples are drawn at the addresses (seed, round, "sample" or "sample_after", update, group), so every stage of an update
uses the same ones.
"""

from typing import NamedTuple

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.engine import weights_of
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
from marless.functions.algorithms.sac.distributions import Choices, Numbers, sample
from marless.functions.algorithms.sac.specs import SacConfig
from marless.functions.algorithms.stage import Context
from marless.functions.environments.base import AgentClass
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Trace, Weights
from marless.functions.randomness import generator


def group_kind(context: Context[SacConfig], group: int) -> AgentClass:
    """The class of a group's agents."""
    return kind_of(context.spec, members(context.team, group)[0])


def policy_samples(context: Context[SacConfig], group: int, weights: Weights) -> tuple[Choices | Numbers, Trace]:
    """Samples of the policy with these weights at the minibatch's steps, in the order of columns, and the network's
    trace."""
    outputs, trace = observation_inputs(context, group).unroll(weights)
    rng = generator(context.seed, context.round, "sample", context.update, group)
    return sample(group_kind(context, group), rows_of(outputs), legal_rows(context, group), rng), trace


def current_actions(context: Context[SacConfig], group: int) -> Array:
    """Samples of the policy's actions at every step ``[n, T, E, width]``, or zeros once an agent is dead."""
    agents, steps = members(context.team, group), len(context.batch.ended)
    samples, _ = policy_samples(context, group, weights_of(context, f"policy/{group_name(group)}"))
    columns = samples.actions.reshape(steps, -1, samples.actions.shape[-1])
    return by_agent(columns, len(agents)) * context.batch.alive[agents][..., None]


class After(NamedTuple):
    """The group's sampled `actions` after every step ``[n, T, E, width]``, and the `entropy` of their distributions
    ``[n, T, E]``. Both are 0 for dead agents."""

    actions: Array
    entropy: Array


def actions_after(context: Context[SacConfig], group: int, address: str = "") -> After:
    """Sample the policy's actions after every step of the context. `address` tells several draws of an update apart."""
    agents, kind = members(context.team, group), group_kind(context, group)
    outputs = group_outputs_after(context, "policy", group)
    rng = generator(context.seed, context.round, f"sample_after{address}", context.update, group)
    legal = None if kind.continuous else legal_next(context, agents)
    samples = sample(kind, rows_of(outputs), None if legal is None else rows_of(legal), rng)
    alive = alive_next(context, agents)
    actions, entropy = samples.actions.reshape(*alive.shape, -1), samples.entropy.reshape(alive.shape)
    return After(actions * alive[..., None], entropy * alive)
