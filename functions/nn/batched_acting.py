"""The networks of a class's agents in batched matrix products, for acting.

The last bits of a product depend on its number of rows. Every agent and every block of environments therefore has its
own product, so an agent's actions do not depend on other agents and blocks. Arrays have two axes before their rows: n
agents, then blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Union

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import AgentClass, EnvSpec, FloatArray
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.discrete import Branches, OneChoice
from marless.functions.nn.entities.attention import ENTITIES, EntityAttention, attention_over, encode, with_rest
from marless.functions.nn.heads import Head, head_of, head_of_network, outputs_of
from marless.functions.nn.layers import Gru, Layer, forward
from marless.functions.nn.normaliser import SEEN, InputStatistics
from marless.functions.nn.onnx_acting import OnnxNetworks, made_by_factory, onnx_networks
from marless.functions.nn.recurrent import LayeredWeights, weights_of
from marless.functions.nn.shape import tensor_names

if TYPE_CHECKING:
    from marless.functions.nn.native.acting import NativeNetworks


@dataclass(frozen=True)
class BatchedNetwork:
    """The networks of a class's n agents. `layers` have stacked parameters, matrices ``[n, 1, in, out]`` and vectors
    ``[n, 1, 1, out]``. The first layer may normalise observations. Gaussian policies have `log_std` ``[n, 1, d]``."""

    layers: Sequence[Layer]
    log_std: FloatArray | None = None
    clips_actions: bool = False

    @property
    def recurrent(self) -> bool:
        """Return True if there is a hidden state."""
        return self._cell is not None

    @property
    def _cell(self) -> Gru | None:
        return next((layer for layer in self.layers if isinstance(layer, Gru)), None)

    def head(self, kind: AgentClass) -> Head:
        """The action head of agents of the class."""
        return head_of_network(kind, LayeredWeights(self.layers, None).outputs, self.log_std, self.clips_actions)

    def start(self, num_envs: int) -> FloatArray | None:
        """The hidden state at the start of episodes: zeros ``[n, E, H]``, or None for feed-forward networks."""
        if (cell := self._cell) is None:
            return None
        return np.zeros((len(cell.h), num_envs, cell.width(0)), cell.h.dtype)

    def outputs(self, inputs: FloatArray, state: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Outputs ``[n, blocks, E, width]`` and the hidden state that follows `state`."""
        return forward(self.layers, inputs, state)


ActingNetworks = Union[BatchedNetwork, OnnxNetworks, "NativeNetworks"]


def batch_networks(spec: EnvSpec, team: Team, tensors: Mapping[str, NDArray[Any]], index: int) -> ActingNetworks:
    """The networks of a class, with an axis for blocks of environments: stacked, or graphs if a factory made them.

    The one-hot identity is a constant input, so it folds into the first bias. Raises `BadRequest` for missing networks,
    and for networks that do not fit the spaces of the class.
    """
    kind = spec.classes[index]
    if made_by_factory(team, tensors, kind.agents[0]):
        return onnx_networks(spec, team, tensors, index)
    networks = _networks(spec, team, tensors, index)
    layers = [_stack(each) for each in zip(*(network.layers for network in networks), strict=True)]
    if team.identity:
        layers[0] = _fold_identity(layers[0], len(spec.agents), kind.agents)
    log_stds = [network.log_std for network in networks if network.log_std is not None]
    log_std = np.stack(log_stds)[:, None] if log_stds else None
    statistics = [tensors.get(f"{_prefix(team.groups[agent])}/{SEEN}") for agent in kind.agents]
    normalisers = [InputStatistics(each).normaliser(networks[0].dtype) for each in statistics if each is not None]
    first = [_stack(normalisers)] if normalisers else []
    if team.kernels and (native := _in_c(networks[0], layers, first, log_std)):
        return native
    return BatchedNetwork([*first, *layers], log_std, networks[0].clips_actions)


def acting_head(team: Team, kind: AgentClass, networks: ActingNetworks | None) -> Head:
    """Return the action head of agents of the class. Agents without networks act by chance."""
    head = head_of(kind, stochastic=False) if networks is None else networks.head(kind)
    if not team.kernels:
        return head
    from marless.functions.native.arithmetic import NATIVE
    from marless.functions.nn.native.acting import NativeChoice

    if isinstance(head, Branches):
        return replace(head, arithmetic=NATIVE)
    return NativeChoice(head.width) if isinstance(head, OneChoice) else head


def single_agent_policy(
    tensors: Mapping[str, NDArray[Any]], spec: EnvSpec, team: Team, agent: int, identity: bool
) -> dict[str, NDArray[Any]]:
    """Return the tensors of one agent's network as a group of that agent alone.

    It has inputs for the one-hot `identity` or not. Its outputs keep their bytes.
    """
    old, new = f"policy/{group_name(team.groups[agent])}/", f"policy/{group_name(agent)}/"
    policy = {new + name.removeprefix(old): np.array(array) for name, array in tensors.items() if name.startswith(old)}
    if identity == team.identity:
        return policy
    if made_by_factory(team, tensors, agent):
        raise BadRequest(f"the policy of {spec.agents[agent]} is a factory's, whose inputs cannot change")
    weights = _weights(policy, agent, spec.agents[agent])
    first, names = weights.layers[0], tensor_names(weights.kinds)[0]
    matrix, offset = (new + dict(zip(vars(first), names, strict=True))[field] for field in first.entry)
    weight, bias = policy[matrix], policy[offset]
    if team.identity and not identity:
        width = weight.shape[0] - len(spec.agents)
        weight, bias = weight[:width], bias + weight[width + agent]
    elif identity and not team.identity:
        weight = np.concatenate([weight, np.zeros((len(spec.agents), weight.shape[1]), weight.dtype)])
    if weights.front is not None:
        entities, count = weights.front.entities, len(spec.agents)
        columns = (*entities.own, *range(entities.size, entities.size + count)) if identity else entities.own[:-count]
        policy[new + ENTITIES] = encode(msgspec.structs.replace(entities, own=columns))
    return policy | {matrix: np.ascontiguousarray(weight), offset: bias}


def _networks(spec: EnvSpec, team: Team, tensors: Mapping[str, NDArray[Any]], index: int) -> list[LayeredWeights]:
    """Return the networks of a class's agents. Raises `BadRequest` for unequal shapes, or if the spaces do not fit."""
    kind, of_group, before = spec.classes[index], dict[int, LayeredWeights](), None
    for agent in kind.agents:
        group, name = team.groups[agent], spec.agents[agent]
        if group in of_group:
            continue
        network = _for_entities_of(kind, _weights(tensors, group, name), len(spec.agents) if team.identity else 0)
        of_group[group] = network
        statistics = tensors.get(f"{_prefix(group)}/{SEEN}")
        shapes = _shapes(network, statistics)
        if shapes == before:
            continue  # nothing else is looked at
        _require_consistent(name, network)
        _require_spaces(spec, team, index, name, network)
        if statistics is not None and statistics.shape != (3, kind.observation_size):
            raise BadRequest(f"the policy of {name} has statistics of other observations, {statistics.shape}")
        if before is not None:
            raise BadRequest(
                f"the policies of {spec.agents[kind.agents[0]]} and {name} are networks of different shapes"
            )
        before = shapes
    return [of_group[team.groups[agent]] for agent in kind.agents]


def _in_c(
    first: LayeredWeights, layers: Sequence[Layer], normalisers: Sequence[Layer], log_std: FloatArray | None
) -> "NativeNetworks | None":
    from marless.functions.nn.native.acting import native_networks

    return native_networks(first.network, layers, normalisers, log_std)


def _prefix(group: int) -> str:
    return f"policy/{group_name(group)}"


def _weights(tensors: Mapping[str, NDArray[Any]], group: int, name: str) -> LayeredWeights:
    try:
        return weights_of(tensors, _prefix(group))
    except KeyError as error:
        raise BadRequest(f"the task's policies hold no network for group {group_name(group)}") from error
    except ValueError as error:
        raise BadRequest(f"the policy of {name} is no network: {error}") from error


def _shapes(network: LayeredWeights, statistics: NDArray[Any] | None) -> tuple[object, ...]:
    shapes = [array.shape for layer in network.layers for array in layer.arrays]
    log_std = None if network.log_std is None else network.log_std.shape
    return network.kinds, network.marks, shapes, log_std, None if statistics is None else statistics.shape


def _require_consistent(name: str, network: LayeredWeights) -> None:
    place, width = 0, network.inputs
    for layer in network.layers:
        inputs, width = width, layer.width(width)
        if layer.shapes(inputs, width) != tuple(array.shape for array in layer.arrays):
            fault = f"its layer {place} does not fit what is before it"
            fault = "its norms do not fit its hidden layers" if layer.is_norm else fault
            raise BadRequest(f"the policy of {name} is no network: {fault}")
        place += bool(layer.entry)


def _require_spaces(spec: EnvSpec, team: Team, index: int, name: str, network: LayeredWeights) -> None:
    kind = spec.classes[index]
    width = kind.observation_size + (len(spec.agents) if team.identity else 0)
    takes, knows = network.inputs, network.outputs
    if takes != width or knows != outputs_of(kind, knows, network.log_std):
        raise BadRequest(
            f"the policy of {name} takes {takes} numbers and knows {knows} actions;"
            f" the task gives {width} numbers and {kind.actions} actions"
        )
    if network.log_std is not None and not kind.continuous:
        raise BadRequest(f"the policy of {name} acts in numbers (it has log_std); the task asks it for choices")
    if network.log_std is not None and network.log_std.shape != (kind.actions,):
        raise BadRequest(f"the policy of {name} has log_std {network.log_std.shape}; it acts in {kind.actions} numbers")


def _stack(layers: Sequence[Layer]) -> Layer:
    """One layer of each of n networks, matrices as ``[n, 1, in, out]`` and vectors as ``[n, 1, 1, out]``."""
    # np.array takes a third of np.stack's time.
    stacks = map(np.array, zip(*[layer.arrays for layer in layers], strict=True))
    return type(layers[0])(*[array[:, None] if array.ndim == 3 else array[:, None, None] for array in stacks])


def _fold_identity(first: Layer, count: int, agents: tuple[int, ...]) -> Layer:
    """The first layer with each agent's one-hot inputs, the last `count`, folded into its bias."""
    fields = vars(first)
    weight, bias = (fields[field] for field in first.entry)
    width = weight.shape[2] - count
    bias = bias + weight[np.arange(len(agents)), :, width + np.array(agents)][:, :, None]
    weight = np.ascontiguousarray(weight[:, :, :width])
    kind = type(first)
    if isinstance(first, EntityAttention):
        kind = attention_over(msgspec.structs.replace(first.entities, own=first.entities.own[:width]))
    return kind(**fields | dict(zip(first.entry, (weight, bias), strict=True)))


def _for_entities_of(kind: AgentClass, network: LayeredWeights, identity: int) -> LayeredWeights:
    """The network for the entities of this task, which may have another number of equal ones than in training."""
    if network.front is None:
        return network
    entities = None if kind.described is None else with_rest(kind.described, kind.observation_size + identity)
    known_entities = network.front.entities
    if entities is None or not entities.is_like(known_entities):
        names = ["no entities" if kinds is None else kinds.names for kinds in (entities, known_entities)]
        raise BadRequest(f"class {kind.name} of the task describes {names[0]}, and the policy knows {names[1]}")
    return network._replace(layers=[attention_over(entities)(*network.layers[0].arrays), *network.layers[1:]])
