"""The mixing network of QPLEX in numpy: forward, and the exact gradient in closed form.

Wang et al., "QPLEX: Duplex Dueling Multi-Agent Q-Learning", 2021. An agent has the utility u and the advantage a = u -
max u, which is at most 0. The joint value is ``Σ (w u + b) + Σ (λ - 1) w a``: weights w > 0 and b come from the state,
λ > 0 from the state and the joint action. All agents' best actions have a = 0 for every λ, so they are the best joint
action. Every joint value with this property can be represented.

λ is a sum over heads of ``|key| sigmoid(agent) sigmoid(action)``. Like the authors' code, the term of λ trains only λ:
its gradient stops before w and the utilities.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.engine import Engine
from marless.functions.algorithms.engines.numpy_engine import NUMPY
from marless.functions.algorithms.value.hypernetworks import HypernetworkMixer, Hypernetworks, HypernetworkTrace
from marless.functions.algorithms.value.specs import QplexSizes
from marless.functions.nn.layers import Array

# The authors' code adds it to absolute values, so that weights are positive.
_POSITIVE = 1e-10


class DuellingTrace(NamedTuple):
    """The arrays of a forward pass that `DuellingMixer.backward` needs. Rows B, agents n, heads k.

    `utilities` ``[B, n]`` (0 where not alive) and `alive`. The raw `weight` ``[B, n]`` and `key` ``[B, k]`` before
    their absolute values. `agent` and `action` ``[B, k, n]`` after the sigmoid. `advantages` times weights ``[B, n]``.
    `traces` of the five hypernetworks.
    """

    utilities: Array
    alive: NDArray[np.bool_]
    weight: Array
    key: Array
    agent: Array
    action: Array
    advantages: Array
    traces: list[HypernetworkTrace]


@dataclass(frozen=True)
class DuellingMixer(QplexSizes, HypernetworkMixer):
    """A mixing network, and the engine that computes it."""

    def forward(
        self,
        flat: Array,
        state: Array,
        utilities: Array,
        alive: NDArray[np.bool_],
        advantages: Array,
        actions: Array,
    ) -> tuple[Array, DuellingTrace]:
        """The joint values ``[B]`` and the trace.

        `state` ``[B, state]``, `utilities`, `alive` and `advantages` ``[B, agents]``, `actions` ``[B, actions]``. The
        utility and the advantage of a dead agent count as 0.
        """
        zero = utilities.dtype.type(0)
        utilities, advantages = np.where(alive, utilities, zero), np.where(alive, advantages, zero)
        both = np.concatenate([state, actions], axis=1)
        traces = self.hypernetworks.forward(flat, [*[state] * (len(self.names) - 1), both])
        weight, bias, key, agent, action = (trace.outputs for trace in traces)
        heads = (len(state), self.heads, self.agents)
        agent, action = (self._sigmoid(weights).reshape(heads) for weights in (agent, action))
        positive = np.abs(weight) + weight.dtype.type(_POSITIVE)
        factor = self.engine.arithmetic.einsum("bk,bkn->bn", np.abs(key) + key.dtype.type(_POSITIVE), agent * action)
        advantages = positive * advantages
        joint = (positive * utilities + bias + (factor - 1) * advantages).sum(axis=1)
        return joint, DuellingTrace(utilities, alive, weight, key, agent, action, advantages, traces)

    def backward(self, flat: Array, trace: DuellingTrace, grad_output: Array) -> tuple[Array, Array]:
        """The parameters' gradient ``[parameters]`` and d loss / d utilities ``[B, agents]``, 0 for dead agents.

        `grad_output` is d loss / d joint value ``[B]``.
        """
        above = grad_output[:, None]
        by_utilities = above * (np.abs(trace.weight) + trace.weight.dtype.type(_POSITIVE)) * trace.alive
        weight = above * trace.utilities * np.sign(trace.weight)
        factor = (above * trace.advantages)[:, None, :]  # d loss / d λ for every head
        key = (factor * trace.agent * trace.action).sum(axis=2) * np.sign(trace.key)
        by_head = factor * (np.abs(trace.key) + trace.key.dtype.type(_POSITIVE))[:, :, None]
        both = by_head * trace.agent * trace.action
        agent, action = both * (1 - trace.agent), both * (1 - trace.action)
        bias = np.broadcast_to(above, weight.shape)
        rows = len(grad_output)
        grad_outputs = (weight, bias, key, agent.reshape(rows, -1), action.reshape(rows, -1))
        return self.hypernetworks.backward(flat, trace.traces, grad_outputs), by_utilities

    def _sigmoid(self, values: Array) -> Array:
        """1 / (1 + e^-x), by tanh, which does not overflow."""
        half = values.dtype.type(0.5)
        return np.asarray(half * self.engine.arithmetic.tanh(half * values) + half)


def duelling_mixer_of(
    tensors: Mapping[str, NDArray[Any]], prefix: str, engine: Engine = NUMPY
) -> tuple[DuellingMixer, Array]:
    """Shape and flat vector (a copy) of a network stored by `Hypernetworks.to_tensors`. Raises `KeyError`."""
    networks, flat = Hypernetworks.of(tensors, prefix, DuellingMixer.names)
    state, *hidden, agents = networks.shapes["weight"].sizes
    heads, both = networks.shapes["key"].sizes[-1], networks.shapes["action"].sizes[0]
    return DuellingMixer(agents, state, both - state, heads, hidden[0] if hidden else 0, engine=engine), flat
