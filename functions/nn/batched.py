"""The networks of a class's agents, stacked: a step of all of them is a few batched matrix products.

Each agent's product keeps its own rows, so the bytes that an agent's action depends on are the same whoever plays
beside it. So do blocks of copies that are played side by side: the last bits of a product depend on its number of rows,
hence every block has a product of its own. Arrays therefore have two axes before their rows: n agents, then blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.contract import BadRequest, Team
from functions.environments.base import AgentClass, EnvSpec, FloatArray
from functions.keys import group_name
from functions.nn.gru import advance
from functions.nn.heads import Head, head_of
from functions.nn.mlp import RECTIFIED, Layer, activate, layers_of
from functions.nn.recurrent import CLIPPED


@dataclass(frozen=True)
class BatchedMlp:
    """The networks of a class's n agents: weights ``[n, in, out]`` and biases ``[n, 1, out]`` per layer.

    Axes may stand between n and the others, for products that are kept apart; values then have them too.
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    rectified: bool = False

    def logits(self, values: FloatArray) -> FloatArray:
        """``[n, E, features] -> [n, E, actions]``."""
        last = len(self.weights) - 1
        hidden = values
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = np.matmul(hidden, weight)
            hidden += bias
            if index < last:
                activate(hidden, self.rectified)
        return hidden


@dataclass(frozen=True)
class BatchedGru:
    """A layer that remembers, see `functions.nn.gru`: `weights` ``[n, 1, in, 3H]`` and ``[n, 1, H, 3H]``,
    `biases` ``[n, 1, 1, 3H]``, of what comes in and of what is remembered."""

    weights: tuple[FloatArray, FloatArray]
    biases: tuple[FloatArray, FloatArray]

    @property
    def width(self) -> int:
        """H."""
        return int(self.weights[1].shape[-2])

    def remember(self, values: FloatArray, memory: FloatArray) -> FloatArray:
        """The next memory ``[n, blocks, E, H]``, which is what the layer gives."""
        gates, recalled = np.matmul(values, self.weights[0]), np.matmul(memory, self.weights[1])
        gates += self.biases[0]
        recalled += self.biases[1]
        after = np.empty_like(memory)
        advance(gates, recalled, memory, after)
        return after


@dataclass(frozen=True)
class BatchedNetwork:
    """A class's networks: `before` the layer that remembers, where there is one, and what follows; `own` ``[n, 1, d]``
    are the parameters that the head has of its own, `clipped` whether it cuts numbers off at their bounds."""

    after: BatchedMlp
    before: BatchedMlp | None = None
    gru: BatchedGru | None = None
    own: FloatArray | None = None
    clipped: bool = False

    def head(self, kind: AgentClass) -> Head:
        """What the outputs mean for agents of the class."""
        return head_of(kind, self.own is not None, self.clipped)

    def start(self, num_envs: int) -> FloatArray | None:
        """What is remembered when episodes start: zeros ``[n, E, H]``, or None where nothing ever is."""
        if self.gru is None:
            return None
        weight = self.gru.weights[1]
        return np.zeros((len(weight), num_envs, self.gru.width), weight.dtype)

    def outputs(self, values: FloatArray, memory: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Outputs ``[n, blocks, E, width]`` and the next memory."""
        if self.gru is None:
            return self.after.logits(values), None
        assert memory is not None
        hidden = values
        if self.before is not None:
            hidden = self.before.logits(values)
            activate(hidden, self.before.rectified)
        memory = self.gru.remember(hidden, memory)
        return self.after.logits(memory), memory


def batch_networks(spec: EnvSpec, team: Team, tensors: Mapping[str, NDArray[Any]], index: int) -> BatchedNetwork:
    """Gathers the networks of a class, with an axis for blocks of copies.

    The one-hot identity is a constant input, so it folds into the first bias. Raises `BadRequest` for networks that are
    not there, or that were made for other spaces than the class has.
    """
    kind = spec.classes[index]
    networks = [_network(tensors, team.groups[agent]) for agent in kind.agents]
    for agent, network in zip(kind.agents, networks, strict=True):
        _require_whole(spec.agents[agent], network)
        _require_fit(spec, team, index, spec.agents[agent], network)
        if network.shapes != networks[0].shapes:
            first = spec.agents[kind.agents[0]]
            raise BadRequest(f"the policies of {first} and {spec.agents[agent]} are networks of different shapes")
    maps = [_stacked([network.maps[place] for network in networks]) for place in range(len(networks[0].maps))]
    if team.identity:
        maps[0] = _folded(maps[0], kind.observation_size, kind.agents)
    found = [network.own for network in networks if network.own is not None]
    own, rectified = np.stack(found)[:, None] if found else None, networks[0].rectified
    clipped = networks[0].clipped
    if networks[0].gru is None:
        return BatchedNetwork(_perceptron(maps, rectified), own=own, clipped=clipped)
    (x, x_bias), (h, h_bias) = maps[-3:-1]
    before = _perceptron(maps[:-3], rectified) if len(maps) > 3 else None
    return BatchedNetwork(_perceptron(maps[-1:], rectified), before, BatchedGru((x, h), (x_bias, h_bias)), own, clipped)


def single_agent_policy(
    tensors: Mapping[str, NDArray[Any]], spec: EnvSpec, team: Team, agent: int, identity: bool
) -> dict[str, NDArray[Any]]:
    """The tensors of an agent's network as a group of its own, with inputs for the one-hot `identity` or without; it
    gives what it gave, to the last bit."""
    old, new = f"policy/{group_name(team.groups[agent])}/", f"policy/{group_name(agent)}/"
    own = {new + name.removeprefix(old): np.array(array) for name, array in tensors.items() if name.startswith(old)}
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
    """One agent's layers, its layer that remembers (of what comes in, and of what is remembered), its head's own,
    whether hidden layers are ReLU, and whether numbers are cut off at their bounds."""

    layers: list[Layer]
    gru: list[Layer] | None
    own: NDArray[Any] | None
    rectified: bool
    clipped: bool

    @property
    def maps(self) -> list[Layer]:
        """All products with their biases, in the order in which what is seen meets them."""
        return self.layers if self.gru is None else [*self.layers[:-1], *self.gru, self.layers[-1]]

    @property
    def shapes(self) -> tuple[object, ...]:
        """What networks that are stacked must have in common."""
        own = None if self.own is None else self.own.shape
        return (self.gru is None, own, self.rectified, self.clipped, *(weight.shape for weight, _ in self.maps))


def _network(tensors: Mapping[str, NDArray[Any]], group: int) -> _Network:
    prefix = f"policy/{group_name(group)}"
    try:
        layers, gru = layers_of(tensors, prefix), None
        if f"{prefix}/gru_x" in tensors:
            gru = [(tensors[f"{prefix}/gru_{part}"], tensors[f"{prefix}/gru_b{part}"]) for part in ("x", "h")]
    except KeyError as error:
        raise BadRequest(f"the task's policies hold no network for group {group_name(group)}") from error
    rectified, clipped = (f"{prefix}/{mark}" in tensors for mark in (RECTIFIED, CLIPPED))
    return _Network(layers, gru, tensors.get(f"{prefix}/log_std"), rectified, clipped)


def _require_whole(name: str, network: _Network) -> None:
    """Raises `BadRequest` when the network's layers do not follow from each other."""
    width = network.maps[0][0].shape[0]
    for place, (weight, bias) in enumerate(network.maps):
        after = len(network.maps) - place
        if network.gru is not None and after in (2, 3):  # in 3H and H 3H, whatever came in
            given = weight.shape[1] // 3
            fits = weight.shape == ((width if after == 3 else given), 3 * given)
        else:
            given, fits = weight.shape[1], weight.shape[0] == width
        if not fits or bias.shape != weight.shape[1:]:
            raise BadRequest(f"the policy of {name} is no network: its layer {place} does not fit what is before it")
        width = given


def _require_fit(spec: EnvSpec, team: Team, index: int, name: str, network: _Network) -> None:
    """Raises `BadRequest` when the network was made for other spaces than the class has."""
    kind = spec.classes[index]
    due = (kind.observation_size + (len(spec.agents) if team.identity else 0), kind.actions)
    made = (network.maps[0][0].shape[0], network.maps[-1][0].shape[1])
    if made != due:
        raise BadRequest(
            f"the policy of {name} takes {made[0]} numbers and knows {made[1]} actions;"
            f" the task gives {due[0]} numbers and {due[1]} actions"
        )
    if network.own is not None and not kind.continuous:
        raise BadRequest(f"the policy of {name} acts in numbers (it has log_std); the task asks it for choices")
    if network.own is not None and network.own.shape != (kind.actions,):
        raise BadRequest(f"the policy of {name} has log_std {network.own.shape}; it acts in {kind.actions} numbers")


def _stacked(layers: list[Layer]) -> Layer:
    """``[n, 1, in, out]`` and ``[n, 1, 1, out]``."""
    weights, biases = zip(*layers, strict=True)
    return np.stack(weights)[:, None], np.stack(biases)[:, None, None]


def _folded(first: Layer, width: int, agents: tuple[int, ...]) -> Layer:
    """The first layer without the inputs for the one-hot, whose rows stand in the bias instead."""
    weight, bias = first
    bias = bias + weight[np.arange(len(agents)), :, width + np.array(agents)][:, :, None]
    return np.ascontiguousarray(weight[:, :, :width]), bias


def _perceptron(layers: list[Layer], rectified: bool) -> BatchedMlp:
    return BatchedMlp(tuple(weight for weight, _ in layers), tuple(bias for _, bias in layers), rectified)
