"""The networks of a class's agents in batched matrix products, for acting.

The last bits of a product depend on its number of rows. Every agent and every block of environments therefore has its
own product, so an agent's actions do not depend on other agents and blocks. Arrays have two axes before their rows: n
agents, then blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.contract import BadRequest, Team
from functions.environments.base import AgentClass, EnvSpec, FloatArray
from functions.keys import group_name
from functions.nn.gru import advance
from functions.nn.heads import Head, head_of_network, outputs_of
from functions.nn.layer_norm import Norm, NormPass
from functions.nn.mlp import RECTIFIED, Layer, forward, hidden, layers_of
from functions.nn.normaliser import SEEN, InputNormaliser, InputStatistics
from functions.nn.onnx_acting import OnnxNetworks, made_by_factory, onnx_networks
from functions.nn.recurrent import CLIPPED, norms_of


@dataclass(frozen=True)
class BatchedGru:
    """The GRUs of a class's n agents, see `functions.nn.gru`: `weights` ``[n, 1, in, 3H]`` and ``[n, 1, H, 3H]``,
    `biases` ``[n, 1, 1, 3H]``, each for the inputs and for the hidden state.

    Its products have all 3H columns, while `gru.forward` has one product per gate, whose last bits differ.
    """

    weights: tuple[FloatArray, FloatArray]
    biases: tuple[FloatArray, FloatArray]

    @property
    def width(self) -> int:
        """H."""
        return int(self.weights[1].shape[-2])

    def step(self, inputs: FloatArray, hidden: FloatArray) -> FloatArray:
        """The next hidden state ``[n, blocks, E, H]``, which is the layer's output."""
        gates, product = np.matmul(inputs, self.weights[0]), np.matmul(hidden, self.weights[1])
        gates += self.biases[0]
        product += self.biases[1]
        after = np.empty_like(hidden)
        advance(gates, product, hidden, after)
        return after


@dataclass(frozen=True)
class BatchedNetwork:
    """The networks of a class's n agents: the layers `before` the GRU, if there is one, and those `after` it, weights
    ``[n, 1, in, out]`` and biases ``[n, 1, 1, out]``; `log_std` ``[n, 1, d]`` of Gaussian policies; the `norms` of the
    hidden layers, the GRU last, ``[n, 1, 1, H]``, or none; what normalises their observations ``[n, 1, 1, F]``."""

    after: Sequence[Layer]
    before: Sequence[Layer] = ()
    gru: BatchedGru | None = None
    log_std: FloatArray | None = None
    rectified: bool = False
    clipped: bool = False
    norms: Sequence[Norm] = ()
    normaliser: InputNormaliser | None = None

    @property
    def recurrent(self) -> bool:
        """Whether there is a hidden state."""
        return self.gru is not None

    def head(self, kind: AgentClass) -> Head:
        """The action head of agents of the class."""
        return head_of_network(kind, self.after[-1][0].shape[-1], self.log_std, self.clipped)

    def start(self, num_envs: int) -> FloatArray | None:
        """The hidden state at the start of episodes: zeros ``[n, E, H]``, or None for feed-forward networks."""
        if self.gru is None:
            return None
        weight = self.gru.weights[1]
        return np.zeros((len(weight), num_envs, self.gru.width), weight.dtype)

    def outputs(self, inputs: FloatArray, state: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Outputs ``[n, blocks, E, width]`` and the hidden state that follows `state`."""
        norms = [NormPass(norm).forward for norm in self.norms]
        if self.normaliser is not None:
            inputs = self.normaliser.normalise(inputs)
        if self.gru is None:
            return forward(self.after, inputs, self.rectified, norms)[-1], None
        assert state is not None
        state = self.gru.step(hidden(self.before, inputs, self.rectified, norms)[-1], state)
        seen = state
        if norms:
            seen = state.copy()
            norms[-1](seen)
        return forward(self.after, seen)[-1], state


ActingNetworks = BatchedNetwork | OnnxNetworks


def batch_networks(spec: EnvSpec, team: Team, tensors: Mapping[str, NDArray[Any]], index: int) -> ActingNetworks:
    """The networks of a class, with an axis for blocks of environments: stacked, or graphs if a factory made them.

    The one-hot identity is a constant input, so it folds into the first bias. Raises `BadRequest` for missing networks,
    and for networks that do not fit the spaces of the class.
    """
    kind = spec.classes[index]
    if made_by_factory(team, tensors, kind.agents[0]):
        return onnx_networks(spec, team, tensors, index)
    networks = [_network(tensors, team.groups[agent]) for agent in kind.agents]
    for agent, network in zip(kind.agents, networks, strict=True):
        _require_consistent(spec.agents[agent], network)
        _require_spaces(spec, team, index, spec.agents[agent], network)
        if network.shapes != networks[0].shapes:
            first = spec.agents[kind.agents[0]]
            raise BadRequest(f"the policies of {first} and {spec.agents[agent]} are networks of different shapes")
    maps = [_stacked(list(layers)) for layers in zip(*(network.maps for network in networks), strict=True)]
    if team.identity:
        maps[0] = _folded(maps[0], kind.observation_size, kind.agents)
    log_stds = [network.log_std for network in networks if network.log_std is not None]
    log_std, marks = np.stack(log_stds)[:, None] if log_stds else None, (networks[0].rectified, networks[0].clipped)
    own = log_std, *marks, _stacked_norms([network.norms for network in networks]), _normaliser(networks)
    if networks[0].gru is None:
        return BatchedNetwork(maps, (), None, *own)
    (x, x_bias), (h, h_bias) = maps[-3:-1]
    return BatchedNetwork(maps[-1:], maps[:-3], BatchedGru((x, h), (x_bias, h_bias)), *own)


def single_agent_policy(
    tensors: Mapping[str, NDArray[Any]], spec: EnvSpec, team: Team, agent: int, identity: bool
) -> dict[str, NDArray[Any]]:
    """The tensors of one agent's network as a group of that agent alone, with or without inputs for the one-hot
    `identity`; its outputs keep their bytes."""
    old, new = f"policy/{group_name(team.groups[agent])}/", f"policy/{group_name(agent)}/"
    own = {new + name.removeprefix(old): np.array(array) for name, array in tensors.items() if name.startswith(old)}
    if identity == team.identity:
        return own
    if made_by_factory(team, tensors, agent):
        raise BadRequest(f"the policy of {spec.agents[agent]} is a factory's, whose inputs cannot change")
    network = _network(own, agent)
    first = ("gru_x", "gru_bx") if network.gru is not None and len(network.layers) == 1 else ("w0", "b0")
    weight, bias = (own[new + name] for name in first)
    if team.identity and not identity:
        width = weight.shape[0] - len(spec.agents)
        weight, bias = weight[:width], bias + weight[width + agent]
    elif identity and not team.identity:
        weight = np.concatenate([weight, np.zeros((len(spec.agents), weight.shape[1]), weight.dtype)])
    return own | {new + first[0]: np.ascontiguousarray(weight), new + first[1]: bias}


class _Network(NamedTuple):
    """One agent's network; `gru` has the layer of the inputs and that of the hidden state."""

    layers: list[Layer]
    gru: list[Layer] | None
    log_std: NDArray[Any] | None
    rectified: bool
    clipped: bool
    norms: list[Norm]
    seen: NDArray[Any] | None

    @property
    def maps(self) -> list[Layer]:
        """All weights with their biases, in forward order."""
        return self.layers if self.gru is None else [*self.layers[:-1], *self.gru, self.layers[-1]]

    @property
    def shapes(self) -> tuple[object, ...]:
        """The properties that all networks of a class must share."""
        log_std = None if self.log_std is None else self.log_std.shape
        marks = self.rectified, self.clipped, len(self.norms), self.seen is None
        return (self.gru is None, log_std, *marks, *(weight.shape for weight, _ in self.maps))

    @property
    def hidden(self) -> list[int]:
        """The widths of the hidden layers."""
        below = [weight.shape[1] for weight, _ in self.layers[:-1]]
        return below if self.gru is None else [*below, self.gru[1][0].shape[0]]


def _network(tensors: Mapping[str, NDArray[Any]], group: int) -> _Network:
    prefix = f"policy/{group_name(group)}"
    try:
        layers, gru = layers_of(tensors, prefix), None
        if f"{prefix}/gru_x" in tensors:
            gru = [(tensors[f"{prefix}/gru_{part}"], tensors[f"{prefix}/gru_b{part}"]) for part in ("x", "h")]
    except KeyError as error:
        raise BadRequest(f"the task's policies hold no network for group {group_name(group)}") from error
    rectified, clipped = (f"{prefix}/{mark}" in tensors for mark in (RECTIFIED, CLIPPED))
    log_std = tensors.get(f"{prefix}/log_std")
    norms, seen = norms_of(tensors, prefix), tensors.get(f"{prefix}/{SEEN}")
    return _Network(layers, gru, log_std, rectified, clipped, norms, seen)


def _require_consistent(name: str, network: _Network) -> None:
    """Raises `BadRequest` when the shapes of the network's layers do not fit each other."""
    width = network.maps[0][0].shape[0]
    for place, (weight, bias) in enumerate(network.maps):
        after = len(network.maps) - place
        if network.gru is not None and after in (2, 3):  # [in, 3H] and [H, 3H]
            given = weight.shape[1] // 3
            fits = weight.shape == ((width if after == 3 else given), 3 * given)
        else:
            given, fits = weight.shape[1], weight.shape[0] == width
        if not fits or bias.shape != weight.shape[1:]:
            raise BadRequest(f"the policy of {name} is no network: its layer {place} does not fit what is before it")
        width = given
    shapes = [part.shape for norm in network.norms for part in norm]
    if shapes and shapes != [(width,) for width in network.hidden for _ in Norm._fields]:
        raise BadRequest(f"the policy of {name} is no network: its norms do not fit its hidden layers")


def _require_spaces(spec: EnvSpec, team: Team, index: int, name: str, network: _Network) -> None:
    """Raises `BadRequest` when the network does not fit the spaces of the class."""
    kind = spec.classes[index]
    width = kind.observation_size + (len(spec.agents) if team.identity else 0)
    takes, knows = network.maps[0][0].shape[0], network.maps[-1][0].shape[1]
    if takes != width or knows != outputs_of(kind, knows, network.log_std):
        raise BadRequest(
            f"the policy of {name} takes {takes} numbers and knows {knows} actions;"
            f" the task gives {width} numbers and {kind.actions} actions"
        )
    if network.seen is not None and network.seen.shape != (3, kind.observation_size):
        raise BadRequest(f"the policy of {name} has statistics of other observations, {network.seen.shape}")
    if network.log_std is not None and not kind.continuous:
        raise BadRequest(f"the policy of {name} acts in numbers (it has log_std); the task asks it for choices")
    if network.log_std is not None and network.log_std.shape != (kind.actions,):
        raise BadRequest(f"the policy of {name} has log_std {network.log_std.shape}; it acts in {kind.actions} numbers")


def _stacked(layers: list[Layer]) -> Layer:
    """``[n, 1, in, out]`` and ``[n, 1, 1, out]``."""
    weights, biases = zip(*layers, strict=True)
    return np.stack(weights)[:, None], np.stack(biases)[:, None, None]


def _stacked_norms(networks: list[list[Norm]]) -> list[Norm]:
    """``[n, 1, 1, H]`` for each hidden layer."""
    return [
        Norm(*(np.stack(parts)[:, None, None] for parts in zip(*norms, strict=True)))
        for norms in zip(*networks, strict=True)
    ]


def _normaliser(networks: list[_Network]) -> InputNormaliser | None:
    """``[n, 1, 1, F]``, or None for networks that take observations as they are."""
    precision = networks[0].maps[0][0].dtype
    each = [InputStatistics(net.seen).normaliser(precision) for net in networks if net.seen is not None]
    return InputNormaliser(*(np.stack(parts)[:, None, None] for parts in zip(*each, strict=True))) if each else None


def _folded(first: Layer, width: int, agents: tuple[int, ...]) -> Layer:
    """The first layer with each agent's one-hot inputs folded into its bias."""
    weight, bias = first
    bias = bias + weight[np.arange(len(agents)), :, width + np.array(agents)][:, :, None]
    return np.ascontiguousarray(weight[:, :, :width]), bias
