"""The network inputs of a group: its agents' steps as rows or as sequences.

Rows are ordered by agent, step and environment. Training leaves out the steps of dead agents unless it passes another
mask. A recurrent network still unrolls over them, like the actor's network.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Trace, Weights
from marless.functions.nn.normaliser import SEEN, InputStatistics
from marless.functions.randomness import generator

Mask = NDArray[np.bool_]


def with_identity(context: Context[AlgorithmConfig], agent: int, inputs: Array) -> Array:
    """``[..., F]`` with the agent's one-hot appended where the team uses identities."""
    if not context.team.identity:
        return inputs
    one_hot = np.zeros((*inputs.shape[:-1], len(context.spec.agents)), inputs.dtype)
    one_hot[..., agent] = 1
    return np.concatenate([inputs, one_hot], axis=-1)


def observations(context: Context[AlgorithmConfig], agent: int) -> Array:
    """The agent's observations ``[T, E, F]`` as its policy takes them, identity included."""
    observation = context.batch.of(context.batch.observations, agent)
    return with_identity(context, agent, normalise(context, "policy", agent, observation))


def observations_after_cuts(context: Context[AlgorithmConfig], agent: int) -> Array:
    """Return the agent's observations after each cut ``[K, F]``, in the form that its policy takes, with identity."""
    observation = context.batch.of(context.batch.cut_observations, agent)
    return with_identity(context, agent, normalise(context, "policy", agent, observation))


def normalise(context: Context[AlgorithmConfig], part: str, agent: int, inputs: Array) -> Array:
    """Inputs ``[..., F]`` for the network `part` of the agent's group, without identity. A network without statistics
    (`input_statistics`) takes them unchanged."""
    statistics = context.tensors.get(f"{part}/{group_name(context.team.groups[agent])}/{SEEN}")
    return inputs if statistics is None else InputStatistics(statistics).normaliser(inputs.dtype).forward(inputs)[0]


def share(context: Context[AlgorithmConfig], group: int) -> Mask:
    """The agents and environments ``[n, 1, E]`` that a group learns from: all, or one member's share.

    A share of a round has every environment from one agent, so that sequences stay whole, and equally many environments
    of each agent (± 1). It is drawn at the address (seed, round, 'rows', group). The MARLess paper (SoCC 2025) leaves
    open which rows a shared learner reads. Costs fall with the number of learners only if each does the work of one.
    """
    agents, num_envs = len(members(context.team, group)), context.batch.ended.shape[1]
    if context.rows == "pooled" or agents == 1:
        return np.ones((agents, 1, num_envs), np.bool_)
    rng = generator(context.seed, context.round, "rows", group)
    part, envs = context.part, num_envs // context.batch.rollouts
    first, of_round = (part.first * envs, part.of * envs) if part else (0, num_envs)
    owners = rng.permutation(rng.permutation(agents)[np.arange(of_round) % agents])[first : first + num_envs]
    return np.asarray(owners == np.arange(agents)[:, np.newaxis])[:, np.newaxis]


def learned_from(context: Context[AlgorithmConfig], group: int) -> Mask:
    """The steps ``[n, T, E]`` of the group's living agents that it learns from, see `share`."""
    return np.asarray(context.batch.alive[members(context.team, group)] & share(context, group))


def pool_rows(
    context: Context[AlgorithmConfig], group: int, array_of_agent: Callable[[int], Array], mask: Mask | None = None
) -> Array:
    """The rows ``[B, ...]`` of ``array_of_agent(agent)`` ``[T, E, ...]``, one agent of the group after the other.

    They are the rows of `learned_from`, or the ones that `mask` ``[n, T, E]`` marks.
    """
    return pooling(context, group, mask)(array_of_agent)


def pooling(
    context: Context[AlgorithmConfig], group: int, mask: Mask | None = None
) -> Callable[[Callable[[int], Array]], Array]:
    """`pool_rows` as a function, for several arrays of one group."""
    agents = members(context.team, group)
    row_mask = (learned_from(context, group) if mask is None else mask).ravel()
    everyone = bool(row_mask.all())

    def pool(array_of_agent: Callable[[int], Array]) -> Array:
        parts = [array_of_agent(agent) for agent in agents]
        steps = parts[0] if len(parts) == 1 else np.concatenate(parts)
        rows = steps.reshape(-1, *steps.shape[2:])
        return rows if everyone else rows[row_mask]

    return pool


def starts(context: Context[AlgorithmConfig]) -> NDArray[np.bool_]:
    """The first steps of episodes ``[T, E]``: a rollout's first step, and every step after a reset."""
    begins: NDArray[np.bool_] = np.ones_like(context.batch.ended)
    begins[1:] = context.batch.ended[:-1]
    return begins


def after_cuts(context: Context[AlgorithmConfig], weights: Weights, trace: Trace, inputs: Array) -> Array:
    """Outputs ``[K, out]`` for one agent's inputs after each cut ``[K, F]``, from the hidden state before it."""
    if not weights.hidden_size:
        return weights.forward(inputs).outputs
    cut = context.batch.cut
    first = trace.hidden[cut[:, 0], cut[:, 1]]
    return np.asarray(weights.forward(inputs[None], first=first).outputs[0])
