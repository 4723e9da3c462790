"""One agent's policy as every format is written from it: layers from the flat observation to the outputs, and a head.

The layers include all processing of a stored policy: the agent's one-hot, the normalisation of inputs, layer norms, the
hidden state. The last action, which `task.last_action` appends to observations, is a separate input, so that an
observation is the environment's.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.coordinator.errors import UserError
from marless.functions.environments.base import AgentClass, FloatArray
from marless.functions.environments.last_action import numbers_of
from marless.functions.environments.spaces.actions import ActionCodec
from marless.functions.environments.spaces.orders import EntityOrder
from marless.functions.nn.batched_acting import BatchedNetwork
from marless.functions.nn.layers import Gru, Layer
from marless.functions.nn.shape import GRAPH, PARAMETERS, SHAPE, NetworkShape
from marless.reports.policy import TeamPolicy

# The inputs that carry state from step to step. The output for the next step has NEXT before its name.
HIDDEN, LAST_ACTION, NEXT = "hidden", "last_action", "next_"


@dataclass(frozen=True)
class FactoryNetwork:
    """A network that a factory made: its ONNX graph, its parameters by name, and the agent's one-hot or nothing.

    The first numbers of the observation have the shape `observation`. The others, and then the one-hot, are its `rest`.
    """

    shape: NetworkShape
    graph: bytes
    parameters: dict[str, FloatArray]
    observation: tuple[int, ...]
    one_hot: FloatArray


PolicyLayer = Layer | FactoryNetwork

# The fields of `ChoiceActions` and of `NumberActions` are keys of policies.json, which players read.


@dataclass(frozen=True)
class ChoiceActions:
    """One choice, or several (not `single`), of so many actions each.

    The environment counts each of its choices from its `first` and takes them in an array of `shape`. If they are
    numbered as one, `joined` are their counts.
    """

    counts: tuple[int, ...]
    first: tuple[int, ...]
    single: bool
    joined: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """The numbers of a mask, and of the last action."""
        return sum(self.counts)

    @property
    def table(self) -> NDArray[np.int64]:
        """The environment's choices ``[actions, choices]`` for every number of several that are numbered as one."""
        choices = np.stack(np.unravel_index(np.arange(self.width), self.joined), axis=-1)
        return np.asarray(choices + np.array(self.first))


@dataclass(frozen=True)
class NumberActions:
    """Continuous actions: the first outputs by tanh, or `clipped` to [-1, 1], then rescaled to the bounds. The
    environment takes them in an array of `shape`.

    The last action is the number in [-1, 1] times `last_scale` plus `last_offset`.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    clipped: bool
    shape: tuple[int, ...]
    last_scale: tuple[float, ...]
    last_offset: tuple[float, ...]

    @property
    def width(self) -> int:
        """The number of actions."""
        return len(self.low)


@dataclass(frozen=True)
class AgentPolicy:
    """A policy from observations ``[rows, observation_size]`` and `states` to `outputs` numbers."""

    name: str
    observation_size: int
    observation_shape: tuple[int, ...]
    layers: tuple[PolicyLayer, ...]
    outputs: int
    actions: ChoiceActions | NumberActions
    # The environment's own observations and actions, as `marless.functions.environments.spaces` reads them.
    spaces: dict[str, Any]
    last_action: bool
    # The order of the observation's entities that the network takes.
    order: EntityOrder | None
    # The log standard deviations of a Gaussian policy that are parameters.
    log_std: tuple[float, ...]

    @property
    def states(self) -> dict[str, int]:
        """The widths of the inputs that carry state from step to step. They are zeros at the start of an episode."""
        cell = next((layer for layer in self.layers if isinstance(layer, Gru)), None)
        sizes = {} if cell is None else {HIDDEN: len(cell.h)}
        return sizes | ({LAST_ACTION: self.actions.width} if self.last_action else {})

    @property
    def inputs(self) -> dict[str, int]:
        """The widths of all inputs. Only choices have a mask."""
        mask = {"mask": self.actions.width} if isinstance(self.actions, ChoiceActions) else {}
        return {"observation": self.observation_size, **mask, **self.states}


def agent_policies(team: TeamPolicy) -> list[AgentPolicy]:
    """The policies of all agents that have one. Raises `UserError` if none has."""
    policies = [_policy(team, agent) for agent in range(len(team.agents)) if team.plays(agent)]
    if not policies:
        raise UserError("all agents acted at random; there is no policy")
    return policies


def _policy(team: TeamPolicy, agent: int) -> AgentPolicy:
    spec, name = team.spec, team.agents[agent]
    kind, networks = spec.classes[spec.class_of[agent]], team.networks(agent)
    layers: tuple[PolicyLayer, ...]
    if isinstance(networks, BatchedNetwork):
        layers = tuple(map(_alone, networks.layers))
    else:
        layers = (_factory_network(team, agent, kind),)
    log_std = () if networks.log_std is None else tuple(float(value) for value in networks.log_std.reshape(-1))
    return AgentPolicy(
        name=name,
        observation_size=kind.observation_size - team.task.last_action * kind.actions,
        observation_shape=kind.observation_shape,
        layers=layers,
        outputs=networks.head(kind).width,
        actions=_actions(kind, team.codec(agent).action, networks.clips_actions and networks.log_std is not None),
        spaces=team.spaces(agent).plain(),
        last_action=team.task.last_action,
        order=team.order(agent),
        log_std=log_std,
    )


def _actions(kind: AgentClass, action: ActionCodec, clips: bool) -> ChoiceActions | NumberActions:
    if not kind.continuous:
        first = tuple(action.start.reshape(-1).tolist())
        counts = kind.branches or (kind.actions,)
        return ChoiceActions(counts, first, not kind.branches, action.joined, action.shape)
    low, high = np.array(kind.low, np.float32), np.array(kind.high, np.float32)
    moves = high > low
    constants = np.where(moves, 0, numbers_of(kind, low))
    return NumberActions(
        kind.low, kind.high, clips, action.shape, *(tuple(x.tolist()) for x in (moves * 1.0, constants))
    )


def _alone(layer: Layer) -> Layer:
    """A layer of a class of one agent, without the axes of agents and blocks."""
    shapes = layer.shapes(1, 1)
    return type(layer)(
        *(array.reshape(array.shape[-len(shape) :]) for array, shape in zip(layer.arrays, shapes, strict=True))
    )


def _factory_network(team: TeamPolicy, agent: int, kind: AgentClass) -> FactoryNetwork:
    tensors = team.stored(agent)
    identity = np.eye(len(team.agents), dtype=np.float32)[agent] if team.identity else np.zeros(0, np.float32)
    return FactoryNetwork(
        shape=NetworkShape.decode(tensors[SHAPE]),
        graph=tensors[GRAPH].tobytes(),
        parameters={
            name.removeprefix(PARAMETERS): np.asarray(array, np.float32)
            for name, array in tensors.items()
            if name.startswith(PARAMETERS)
        },
        observation=kind.observation_shape or (kind.observation_size,),
        one_hot=identity,
    )
