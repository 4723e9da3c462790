"""The mixing network of QMIX in numpy: forward, and the exact gradient in closed form.

Rashid et al., "QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent Reinforcement Learning", 2018. The
joint value is ``ELU(u |W1| + b1) |w2| + b2`` for utilities u. Its weights come from the state through hypernetworks,
and their absolute values make it monotonic: it never decreases when a utility increases, so every agent's own best
action is part of the best joint action.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.nn.mlp import Array, Layer, Mlp, from_tensors, to_tensors

# The outputs of the four hypernetworks, in the order of the flat vector.
NAMES = ("first_weight", "first_bias", "last_weight", "last_bias")


@dataclass(frozen=True)
class MixerTrace:
    """The arrays of a forward pass that `Mixer.backward` needs. Rows B, agents n, hidden units m.

    `utilities` ``[B, n]`` (0 where not alive) and `alive`; the raw `weight` ``[B, n, m]`` and `last` ``[B, m]`` before
    their absolute values; `hidden` ``[B, m]`` after ELU and `elu_gradient`; `activations` of the four hypernetworks,
    the state first.
    """

    utilities: Array
    alive: NDArray[np.bool_] | None
    weight: Array
    last: Array
    hidden: Array
    elu_gradient: Array
    activations: tuple[list[Array], ...]


@dataclass(frozen=True)
class Mixer:
    """The shape of a mixing network: `agents` utilities, a state of width `state`, `embed` hidden units.

    The hypernetworks of weights have a hidden layer of `hyper` units, as in the authors' later code, or none if `hyper`
    is 0, as in the paper. The one of the first bias is linear, the one of the last bias has `embed` hidden units.
    Hidden layers of hypernetworks are ReLU.
    """

    agents: int
    state: int
    embed: int = 32
    hyper: int = 64

    @property
    def shapes(self) -> tuple[Mlp, ...]:
        """The hypernetworks, in the order of `NAMES`."""
        first = (self.state, self.hyper) if self.hyper else (self.state,)
        widths = (
            (*first, self.agents * self.embed),
            (self.state, self.embed),
            (*first, self.embed),
            (self.state, self.embed, 1),
        )
        return tuple(Mlp(sizes) for sizes in widths)

    @property
    def parameters(self) -> int:
        """The number of parameters of all hypernetworks."""
        return sum(shape.parameters for shape in self.shapes)

    def networks(self, flat: Array) -> list[list[Layer]]:
        """Views of the hypernetworks' layers into a flat vector ``[parameters]``, in the order of `NAMES`."""
        views, start = [], 0
        for shape in self.shapes:
            end = start + shape.parameters
            views.append(shape.layers(flat[start:end]))
            start = end
        return views

    def initialise(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """A flat vector, weights and biases uniform within ±1/√inputs, as in the authors' code."""
        flat = np.empty(self.parameters, np.float32)
        for network in self.networks(flat):
            for weight, bias in network:
                bound = 1 / np.sqrt(len(weight))
                weight[...] = rng.uniform(-bound, bound, weight.shape)
                bias[...] = rng.uniform(-bound, bound, bias.shape)
        return flat

    def forward(
        self, flat: Array, state: Array, utilities: Array, alive: NDArray[np.bool_] | None = None
    ) -> tuple[Array, MixerTrace]:
        """The joint values ``[B]`` of `state` ``[B, state]`` and `utilities` ``[B, agents]``, and the trace.

        The utility of a dead agent counts as 0.
        """
        if alive is not None:
            utilities = np.where(alive, utilities, utilities.dtype.type(0))
        activations = tuple(_forward(layers, state) for layers in self.networks(flat))
        weight, first_bias, last, last_bias = (outputs[-1] for outputs in activations)
        weight = weight.reshape(len(state), self.agents, self.embed)
        hidden = np.einsum("bn,bnm->bm", utilities, np.abs(weight))
        hidden += first_bias
        elu_gradient = np.exp(np.minimum(hidden, hidden.dtype.type(0)))
        np.maximum(hidden, hidden.dtype.type(0), out=hidden)
        hidden += elu_gradient - 1  # expm1 takes 20 times as long, for digits that the sums below lose
        joint = np.einsum("bm,bm->b", hidden, np.abs(last)) + last_bias[:, 0]
        return joint, MixerTrace(utilities, alive, weight, last, hidden, elu_gradient, activations)

    def backward(self, flat: Array, trace: MixerTrace, grad_output: Array) -> tuple[Array, Array]:
        """The parameters' gradient ``[parameters]`` and d loss / d utilities ``[B, agents]``.

        `grad_output` is d loss / d joint value ``[B]``. Dead agents get 0.
        """
        inner = grad_output[:, None] * np.abs(trace.last)
        inner *= trace.elu_gradient
        last = grad_output[:, None] * trace.hidden
        last *= np.sign(trace.last)
        by_utilities = np.einsum("bnm,bm->bn", np.abs(trace.weight), inner)
        if trace.alive is not None:
            by_utilities *= trace.alive
        weight = np.sign(trace.weight)
        weight *= trace.utilities[:, :, None]
        weight *= inner[:, None, :]
        gradient = np.empty_like(flat)
        grad_outputs = (weight.reshape(len(grad_output), -1), inner, last, grad_output[:, None])
        views = zip(self.networks(flat), trace.activations, grad_outputs, self.networks(gradient), strict=True)
        for layers, activations, above, into in views:
            _backward(layers, activations, above, into)
        return gradient, by_utilities

    def to_tensors(self, flat: Array, prefix: str) -> dict[str, Array]:
        """The network as named layers: ``<prefix>/first_weight/w0 [in, out]``, ... for each of `NAMES`."""
        named, start = {}, 0
        for name, shape in zip(NAMES, self.shapes, strict=True):
            end = start + shape.parameters
            named.update(to_tensors(shape, flat[start:end], f"{prefix}/{name}"))
            start = end
        return named


def mixer_of(tensors: Mapping[str, NDArray[Any]], prefix: str) -> tuple[Mixer, Array]:
    """Shape and flat vector (a copy) of a mixing network stored by `Mixer.to_tensors`; raises `KeyError`."""
    parts = [from_tensors(tensors, f"{prefix}/{name}") for name in NAMES]
    first, last_bias = parts[0][0].sizes, parts[3][0].sizes
    state, embed = last_bias[0], last_bias[1]
    hyper = first[1] if len(first) > 2 else 0
    return Mixer(first[-1] // embed, state, embed, hyper), np.concatenate([flat for _, flat in parts])


def _forward(layers: Sequence[Layer], inputs: Array) -> list[Array]:
    """All activations of a network with ReLU hidden layers, input first, output (linear) last."""
    activations = [inputs]
    for index, (weight, bias) in enumerate(layers):
        outputs = activations[-1] @ weight
        outputs += bias
        if index < len(layers) - 1:
            np.maximum(outputs, outputs.dtype.type(0), out=outputs)
        activations.append(outputs)
    return activations


def _backward(
    layers: Sequence[Layer], activations: Sequence[Array], grad_output: Array, gradient: Sequence[Layer]
) -> None:
    """Writes d loss / d parameters into `gradient`, given `grad_output` = d loss / d outputs ``[rows, out]``."""
    for index in range(len(layers) - 1, -1, -1):
        below = activations[index]
        np.matmul(below.T, grad_output, out=gradient[index][0])
        np.add.reduce(grad_output, axis=0, out=gradient[index][1])
        if index:
            grad_output = grad_output @ layers[index][0].T
            grad_output *= below > 0
