"""The mixing network of QMIX in numpy: forward, and the exact gradient in closed form.

Rashid et al., "QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent Reinforcement Learning", 2018. The
joint value is ``ELU(u |W1| + b1) |w2| + b2`` for utilities u. Its weights come from the state through hypernetworks,
and their absolute values make it monotonic: it never decreases when a utility increases. So every agent's own best
action is part of the best joint action.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.engine import Engine
from marless.functions.algorithms.engines.numpy_engine import NUMPY
from marless.functions.algorithms.value.hypernetworks import HypernetworkMixer, Hypernetworks, HypernetworkTrace
from marless.functions.algorithms.value.specs import QmixSizes
from marless.functions.nn.layers import Array


@dataclass(frozen=True)
class MixerTrace:
    """The arrays of a forward pass that `Mixer.backward` needs. Rows B, agents n, hidden units m.

    `utilities` ``[B, n]`` (0 where not alive) and `alive`. The raw `weight` ``[B, n, m]`` and `last` ``[B, m]`` before
    their absolute values. `hidden` ``[B, m]`` after ELU and `elu_gradient`. `traces` of the four hypernetworks.
    """

    utilities: Array
    alive: NDArray[np.bool_] | None
    weight: Array
    last: Array
    hidden: Array
    elu_gradient: Array
    traces: list[HypernetworkTrace]


@dataclass(frozen=True)
class Mixer(QmixSizes, HypernetworkMixer):
    """A mixing network, and the engine that computes it."""

    def forward(
        self, flat: Array, state: Array, utilities: Array, alive: NDArray[np.bool_] | None = None
    ) -> tuple[Array, MixerTrace]:
        """The joint values ``[B]`` of `state` ``[B, state]`` and `utilities` ``[B, agents]``, and the trace.

        The utility of a dead agent counts as 0.
        """
        if alive is not None:
            utilities = np.where(alive, utilities, utilities.dtype.type(0))
        traces = self.hypernetworks.forward(flat, [state] * len(self.names))
        weight, first_bias, last, last_bias = (trace.outputs for trace in traces)
        weight = weight.reshape(len(state), self.agents, self.embed)
        hidden = self.engine.arithmetic.einsum("bn,bnm->bm", utilities, np.abs(weight))
        hidden += first_bias
        elu_gradient = self.engine.arithmetic.exp(np.minimum(hidden, hidden.dtype.type(0)))
        # expm1 takes 20 times as long, for digits that the sums below lose.
        hidden = np.maximum(hidden, hidden.dtype.type(0)) + (elu_gradient - 1)
        joint = self.engine.arithmetic.einsum("bm,bm->b", hidden, np.abs(last)) + last_bias[:, 0]
        return joint, MixerTrace(utilities, alive, weight, last, hidden, elu_gradient, traces)

    def backward(self, flat: Array, trace: MixerTrace, grad_output: Array) -> tuple[Array, Array]:
        """The parameters' gradient ``[parameters]`` and d loss / d utilities ``[B, agents]``.

        `grad_output` is d loss / d joint value ``[B]``. Dead agents get 0.
        """
        inner = grad_output[:, None] * np.abs(trace.last) * trace.elu_gradient
        last = grad_output[:, None] * trace.hidden * np.sign(trace.last)
        by_utilities = self.engine.arithmetic.einsum("bnm,bm->bn", np.abs(trace.weight), inner)
        if trace.alive is not None:
            by_utilities *= trace.alive
        weight = np.sign(trace.weight) * trace.utilities[:, :, None] * inner[:, None, :]
        grad_outputs = (weight.reshape(len(grad_output), -1), inner, last, grad_output[:, None])
        return self.hypernetworks.backward(flat, trace.traces, grad_outputs), by_utilities


def mixer_of(tensors: Mapping[str, NDArray[Any]], prefix: str, engine: Engine = NUMPY) -> tuple[Mixer, Array]:
    """Shape and flat vector (a copy) of a mixing network stored by `Hypernetworks.to_tensors`. Raises `KeyError`."""
    networks, flat = Hypernetworks.of(tensors, prefix, Mixer.names)
    first, last_bias = networks.shapes["first_weight"].sizes, networks.shapes["last_bias"].sizes
    state, embed = last_bias[0], last_bias[1]
    hyper = first[1] if len(first) > 2 else 0
    return Mixer(first[-1] // embed, state, embed, hyper, engine=engine), flat
