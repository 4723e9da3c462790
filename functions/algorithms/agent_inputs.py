"""The inputs of a network from the data of an agent, and their width, which is known before there is data.

Also the agents of a group, the agents of a side, and the groups of a side, which learn together.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.environments.entities.description import Entities, EntityBlock, columns_of
from marless.functions.errors import BadRequest
from marless.functions.nn.shape import Network

if TYPE_CHECKING:  # descriptions of algorithms load without data
    from marless.functions.data.batch import Batch

from marless.functions.messages.team import Team


def members(team: Team, group: int) -> list[int]:
    """The agents of a group, ascending."""
    return [agent for agent, group_of_agent in enumerate(team.groups) if group_of_agent == group]


def side_of(spec: EnvSpec, team: Team, group: int) -> list[int]:
    """The agents on the side of a group, ascending. Raises `BadRequest` if its members are on several."""
    sides, agents = spec.sides or (0,) * len(spec.agents), members(team, group)
    on = {sides[agent] for agent in agents}
    if len(on) > 1:
        names = ", ".join(spec.agents[agent] for agent in agents)
        raise BadRequest(f"{names} share networks and are not on one side, so that they have no joint value")
    return [agent for agent, side in enumerate(sides) if side in on]


def groups_of(team: Team, agents: list[int]) -> list[int]:
    """The groups of the agents, ascending. The first group stores the state that a side has once."""
    return sorted({team.groups[agent] for agent in agents})


def leads_side(spec: EnvSpec, team: Team, group: int) -> bool:
    """Return True for the first group of a side, which stores the state that a side has once."""
    return group == groups_of(team, side_of(spec, team, group))[0]


Array = NDArray[Any]


class CriticView(NamedTuple):
    """The inputs of an algorithm's critic for an agent, without the one-hot identity. They have a width, an array ``[T,
    E, width]`` for all steps, and ``[K, width]`` for the states after each cut."""

    width: Callable[[EnvSpec, int], int]
    inputs: Callable[["Batch", int], tuple[Array, Array]]


def described(config: AlgorithmConfig, kind: AgentClass) -> Entities | None:
    """Return the entities that `algorithm.network=attention` sees in observations of the class, or None for others.

    Raises `BadRequest` for observations without a description.
    """
    if config.network != "attention":
        return None
    if kind.described is None:
        raise BadRequest(
            f"algorithm.network=attention takes observations with entities, and class {kind.name} describes none; give"
            " the environment a description (docs/how-to/networks.md), or use mlp"
        )
    return kind.described


def described_for_critic(spec: EnvSpec, entities: Entities | None, width: int) -> Entities | None:
    """The entities in the `width` inputs of a critic before the one-hot identity, if its agent sees `entities`.

    A critic that sees the observations of all agents side by side attends to agents. None for a state.
    """
    if entities is None or entities.size == width:
        # The output is no action.
        blocks = (structs.replace(block, first_action=None) for block in entities.blocks) if entities else ()
        return entities and structs.replace(entities, blocks=tuple(blocks))
    if spec.state_size or len(spec.classes) > 1 or width != spec.classes[0].observation_size * len(spec.agents):
        return None
    return Entities.of(width, EntityBlock("agent", columns_of(len(spec.agents), (0, spec.classes[0].observation_size))))


def over_entities(config: AlgorithmConfig, network: Network, entities: Entities | None) -> Network:
    """The network with attention over the entities as its first layer, if there are any.

    Its first hidden width is the width of tokens. Inputs behind the description are the agent's own.
    """
    if entities is None:
        return network
    from marless.functions.nn.entities.attention import attention_over, width_of_tokens, with_rest

    inputs, *hidden, outputs = network.sizes
    front, pooled = attention_over(with_rest(entities, inputs)), 2 * width_of_tokens(hidden[0])
    return replace(network, sizes=(inputs, pooled, *hidden[1:], outputs + front.surplus(pooled)), front=front)


def observation_shape(spec: EnvSpec, agent: int) -> tuple[int, ...]:
    """The shape of an agent's observation in a network's first layer: an image or entities, or the whole vector."""
    kind = next(kind for kind in spec.classes if agent in kind.agents)
    return kind.observation_shape or (kind.observation_size,)


def critic_shape(spec: EnvSpec, agent: int, width: int) -> tuple[int, ...]:
    """The shape of the first input of a critic of this `width`: the agent's observation or a state (a vector)."""
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
    """The agent's observations ``[T, E, F]``, and the observations after each cut ``[K, F]``."""
    return batch.of(batch.observations, agent), batch.of(batch.cut_observations, agent)


def team_state(batch: "Batch", agent: int) -> tuple[Array, Array]:
    """The team's state ``[T, E, S]``, and the state after each cut ``[K, S]``. Both are the same for every agent."""
    return batch.state, batch.cut_state


def agent_state(batch: "Batch", agent: int) -> tuple[Array, Array]:
    """The team's state and then the agent's observation ``[T, E, S + F]``, and both after each cut ``[K, S + F]``.

    The "agent-specific" state of Yu et al. 2022. If the state is all observations side by side, this adds no
    information. It puts an agent's observation at the same place for every agent that shares the critic.
    """
    pairs = zip(team_state(batch, agent), own_observation(batch, agent), strict=True)
    steps, cut = (np.concatenate(pair, axis=-1) for pair in pairs)
    return steps, cut
