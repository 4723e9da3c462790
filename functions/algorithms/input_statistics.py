"""Networks that normalise their inputs by running statistics, which are a tensor of the network, `seen`.

A round samples and learns with the statistics that its policies were published with. The stage that trains a network
then adds the round's inputs. The batch is all rollouts in their order, so bytes are the same for every assignment of
rollouts to actors. Sources: Yu et al. 2022 and Andrychowicz et al., "What Matters in On-Policy Reinforcement
Learning?",
2021. One-hot identities are not normalised.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.agent_inputs import own_observation
from marless.functions.algorithms.group_inputs import pool_rows
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context
from marless.functions.data.batch import Batch, side_by_side
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.normaliser import SEEN, InputStatistics, Statistics, merge_statistics, statistics_of


def initial_statistics(part: str, group: int, width: int) -> dict[str, NDArray[np.float64]]:
    """The statistics of the network `<part>/<group>` before its first input, by name."""
    return {_key(part, group): InputStatistics.none(width).tensor}


def _observation_rows(batch: Batch, agent: int) -> Array:
    return own_observation(batch, agent)[0]


def updated_statistics(
    context: Context[AlgorithmConfig], part: str, group: int, inputs: Callable[[Batch, int], Array] = _observation_rows
) -> dict[str, NDArray[np.float64]]:
    """The statistics of the network `<part>/<group>` after the round, by name, or {} if it has none."""
    new = batch_statistics(context, part, group, inputs)
    return {} if new is None else merged_statistics(context, part, group, [new])


def merged_statistics(
    context: Context[AlgorithmConfig], part: str, group: int, new: Iterable[Statistics]
) -> dict[str, NDArray[np.float64]]:
    """The statistics of the network `<part>/<group>`, which has some, merged with new inputs' statistics in this order,
    by name."""
    key = _key(part, group)
    return {key: functools.reduce(merge_statistics, new, context.tensors[key])}


def batch_statistics(
    context: Context[AlgorithmConfig], part: str, group: int, inputs: Callable[[Batch, int], Array] = _observation_rows
) -> Statistics | None:
    """The statistics of the batch's inputs of the network `<part>/<group>`, or None without statistics.

    ``inputs(batch, agent)`` are ``[T, E, F]``, observations by default. Steps after the agent's death and the zeros of
    other dead agents are left out.
    """
    if _key(part, group) not in context.tensors:
        return None
    rows = pool_rows(context, group, lambda agent: inputs(context.batch, agent))
    present = None
    if not context.batch.alive.all():
        living = _living(context.batch)
        present = pool_rows(context, group, lambda agent: inputs(living, agent)) != 0
    return statistics_of(rows, present)


def _living(batch: Batch) -> Batch:
    """The batch with 1 in place of the inputs of living agents and of an environment's own state."""
    spec = batch.spec
    ones = [batch.alive[list(kind.agents)][..., np.newaxis] for kind in spec.classes]
    observations = tuple(
        np.broadcast_to(mask, array.shape).astype(array.dtype)
        for mask, array in zip(ones, batch.observations, strict=True)
    )
    return replace(
        batch,
        observations=observations,
        state=np.ones_like(batch.state) if spec.state_size else side_by_side(spec, observations),
    )


def _key(part: str, group: int) -> str:
    return f"{part}/{group_name(group)}/{SEEN}"
