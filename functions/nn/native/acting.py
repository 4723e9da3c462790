"""Acting by the kernels: the networks of a class's agents, and draws of one choice among actions.

Rows are independent, so an agent's actions depend only on the agent, and blocks of environments have no effect.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from marless.functions.environments.base import ActionArray, AgentClass, FloatArray
from marless.functions.native.interface import BLOCK
from marless.functions.native.kernels import address, kernels, start_of
from marless.functions.nn.discrete import OneChoice
from marless.functions.nn.heads import Head, head_of_network
from marless.functions.nn.layers import Array, Layer
from marless.functions.nn.native.calls import ROWS_AT_ONCE, covers, perceptron_parameters, room_for
from marless.functions.nn.shape import Network, stored_order


class NativeNetworks:
    """See `marless.functions.nn.batched_acting.BatchedNetwork`."""

    recurrent = False

    @property
    def clips_actions(self) -> bool:
        """Return True if sampled continuous actions are clipped."""
        return self._network.clipped

    def __init__(
        self, network: Network, stacks: Sequence[Array], normalisers: Sequence[Layer], log_std: FloatArray | None
    ) -> None:
        """`stacks` ``[n, ...]`` are the parameters of n networks that the kernels cover, in the order of the flat
        vector. They act after `normalisers` of observations."""
        self.log_std = log_std
        self._network, self._agents, self._normalisers = network, len(stacks[0]), normalisers
        self._room = room_for(network, ROWS_AT_ONCE, self._agents, trains=False)
        network_bytes = len(self._room.fields) // self._agents
        for agent in range(self._agents):
            flat = np.concatenate([stack[agent].ravel() for stack in stacks])
            place = ctypes.byref(self._room.fields, agent * network_bytes)
            kernels().network_pack(place, address(flat, np.float32, (perceptron_parameters(network),)))

    def head(self, kind: AgentClass) -> Head:
        """The action head of agents of the class."""
        return head_of_network(kind, self._network.outputs, self.log_std, self.clips_actions)

    def start(self, num_envs: int) -> None:
        """There is no hidden state."""

    def outputs(self, inputs: FloatArray, state: FloatArray | None) -> tuple[FloatArray, None]:
        """Outputs ``[n, blocks, E, width]`` of inputs ``[n, blocks, E, F]``."""
        for layer in self._normalisers:
            inputs, _ = layer.forward(inputs)
        _, blocks, envs, _ = inputs.shape
        inputs = np.ascontiguousarray(inputs, np.float32)
        place = address(inputs, np.float32, (self._agents, blocks, envs, self._network.sizes[0]))
        outputs = np.empty((self._agents, blocks, envs, self._network.outputs), np.float32)
        kernels().networks_forward(self._room.fields, self._agents, place, blocks * envs, start_of(outputs))
        return outputs, None


def native_networks(
    network: Network, layers: Sequence[Layer], normalisers: Sequence[Layer], log_std: FloatArray | None
) -> NativeNetworks | None:
    """The networks of n agents. Their stacked `layers` have a `network`'s shape, except for the width of their inputs.
    None if the kernels lack them."""
    order = stored_order([type(layer) for layer in layers])
    stacks = [array for index in order for array in layers[index].arrays]
    front = type(layers[0]) if network.front is not None else None
    network = replace(network, sizes=(layers[0].inputs, *network.sizes[1:]), front=front)
    return NativeNetworks(network, stacks, normalisers, log_std) if covers(network, stacks[0]) else None


@dataclass(frozen=True)
class NativeChoice(OneChoice):
    """One choice that the kernels draw. Its log-probabilities equal the learners' loss bit for bit."""

    def draw(self, outputs: Array, log_std: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """See `marless.functions.nn.discrete.draw`."""
        if outputs.dtype != np.float32:
            return super().draw(outputs, log_std, noise)
        if self.width < 1:
            raise ValueError("a choice among no actions")
        logits, uniforms = np.ascontiguousarray(outputs), np.ascontiguousarray(noise)
        actions, log_p = np.empty(noise.shape, np.int64), np.empty(noise.shape, np.float32)
        planes = np.empty((self.width, 2, BLOCK), np.float32)
        kernels().choices_draw(
            address(logits, np.float32, (*noise.shape, self.width)),
            address(uniforms, np.float32, noise.shape),
            noise.size,
            self.width,
            start_of(planes),
            start_of(actions),
            start_of(log_p),
        )
        return actions, log_p
