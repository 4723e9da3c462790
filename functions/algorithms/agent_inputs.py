"""The inputs of a network from the data of an agent, and their width, which is known before there is data."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.environments.base import EnvSpec

if TYPE_CHECKING:  # descriptions of algorithms load without data
    from functions.data.batch import Batch

Array = NDArray[Any]


class CriticView(NamedTuple):
    """The inputs of an algorithm's critic for an agent, without the one-hot identity: their width, and the arrays
    ``[T, E, width]`` for all steps and ``[K, width]`` for the states after each cut."""

    width: Callable[[EnvSpec, int], int]
    inputs: Callable[["Batch", int], tuple[Array, Array]]


def observation_shape(spec: EnvSpec, agent: int) -> tuple[int, ...]:
    """The shape of what networks take first of the agent's observation: an image or entities, or all of a vector."""
    kind = next(kind for kind in spec.classes if agent in kind.agents)
    return kind.observation_shape or (kind.observation_size,)


def critic_shape(spec: EnvSpec, agent: int, width: int) -> tuple[int, ...]:
    """The shape of what a critic of this `width` sees first: the agent's observation, or a state, which is a vector."""
    return observation_shape(spec, agent) if width == observation_width(spec, agent) else (width,)


def observation_width(spec: EnvSpec, agent: int) -> int:
    """The width of the agent's observation."""
    return next(kind.observation_size for kind in spec.classes if agent in kind.agents)


def state_width(spec: EnvSpec, agent: int) -> int:
    """The width of the task's global state, or of all observations side by side."""
    return spec.state_size or sum(kind.observation_size * len(kind.agents) for kind in spec.classes)


def agent_state_width(spec: EnvSpec, agent: int) -> int:
    """The width of `agent_state`."""
    return state_width(spec, agent) + observation_width(spec, agent)


def own_observation(batch: "Batch", agent: int) -> tuple[Array, Array]:
    """The agent's observations ``[T, E, F]`` and those after each cut ``[K, F]``."""
    return batch.of(batch.observations, agent), batch.of(batch.cut_observations, agent)


def team_state(batch: "Batch", agent: int) -> tuple[Array, Array]:
    """The team's state ``[T, E, S]`` and that after each cut ``[K, S]``; the same for every agent."""
    return batch.state, batch.cut_state


def agent_state(batch: "Batch", agent: int) -> tuple[Array, Array]:
    """The team's state and then the agent's observation ``[T, E, S + F]``, and both after each cut ``[K, S + F]``.

    The "agent-specific" state of Yu et al. 2022. Where the state is all observations side by side it says nothing new,
    but a critic that agents share finds the observation of its agent at the same place for each of them.
    """
    pairs = zip(team_state(batch, agent), own_observation(batch, agent), strict=True)
    steps, cut = (np.concatenate(pair, axis=-1) for pair in pairs)
    return steps, cut
