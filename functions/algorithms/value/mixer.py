"""The mixing network of QMIX in numpy: forward, and the exact gradient in closed form.

Rashid et al., "QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent Reinforcement Learning", 2018. The
joint value is ``ELU(u |W1| + b1) |w2| + b2`` for utilities u. Its weights come from the state through networks of their
own, and their absolute values keep it from falling where a utility rises: then every agent's own best action has its
part in the best joint action.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.nn.mlp import Array, Layer, Mlp, from_tensors, to_tensors

# What each of the four hypernetworks makes, in the order of the flat vector.
NAMES = ("first_weight", "first_bias", "last_weight", "last_bias")


@dataclass(frozen=True)
class Mixed:
    """What `Mixer.backward` needs of a forward pass. Rows B, agents n, hidden units m.

    `utilities` ``[B, n]`` (0 where not alive) and `alive`; the raw `weight` ``[B, n, m]`` and `last` ``[B, m]`` before
    their absolute values; `hidden` ``[B, m]`` after ELU and ELU's `slope`; `activations` of the four hypernetworks, the
    state first.
    """

    utilities: Array
    alive: NDArray[np.bool_] | None
    weight: Array
    last: Array
    hidden: Array
    slope: Array
    activations: tuple[list[Array], ...]


@dataclass(frozen=True)
class Mixer:
    """The shape of a mixing network: `agents` utilities, a state of width `state`, `embed` hidden units.

    Hypernetworks of weights have a hidden layer of `hyper` units, as in the authors' later code, or with 0 none, as in
    the paper. That of the first bias is linear, that of the last bias has `embed` hidden units. Hidden layers of
    hypernetworks are ReLU.
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
        """How many numbers the network has."""
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
        """A flat vector, weights and biases uniform within ±1/√inputs: what the authors' code starts from."""
        flat = np.empty(self.parameters, np.float32)
        for network in self.networks(flat):
            for weight, bias in network:
                bound = 1 / np.sqrt(len(weight))
                weight[...] = rng.uniform(-bound, bound, weight.shape)
                bias[...] = rng.uniform(-bound, bound, bias.shape)
        return flat

    def forward(
        self, flat: Array, state: Array, utilities: Array, alive: NDArray[np.bool_] | None = None
    ) -> tuple[Array, Mixed]:
        """The joint values ``[B]``, and what `backward` needs, for `state` ``[B, state]``, `utilities` ``[B, agents]``.

        An agent that is not alive counts with a utility of 0, whatever its own network says.
        """
        if alive is not None:
            utilities = np.where(alive, utilities, utilities.dtype.type(0))
        activations = tuple(_forward(layers, state) for layers in self.networks(flat))
        weight, first_bias, last, last_bias = (passed[-1] for passed in activations)
        weight = weight.reshape(len(state), self.agents, self.embed)
        hidden = np.einsum("bn,bnm->bm", utilities, np.abs(weight))
        hidden += first_bias
        slope = np.exp(np.minimum(hidden, hidden.dtype.type(0)))
        np.maximum(hidden, hidden.dtype.type(0), out=hidden)
        hidden += slope - 1  # expm1 takes 20 times as long, for digits that the sums below lose again
        joint = np.einsum("bm,bm->b", hidden, np.abs(last)) + last_bias[:, 0]
        return joint, Mixed(utilities, alive, weight, last, hidden, slope, activations)

    def backward(self, flat: Array, mixed: Mixed, error: Array) -> tuple[Array, Array]:
        """The parameters' gradient ``[parameters]`` and d loss / d utilities ``[B, agents]``.

        `error` is d loss / d joint value ``[B]``. Agents that are not alive get 0.
        """
        inner = error[:, None] * np.abs(mixed.last)
        inner *= mixed.slope
        last = error[:, None] * mixed.hidden
        last *= np.sign(mixed.last)
        down = np.einsum("bnm,bm->bn", np.abs(mixed.weight), inner)
        if mixed.alive is not None:
            down *= mixed.alive
        weight = np.sign(mixed.weight)
        weight *= mixed.utilities[:, :, None]
        weight *= inner[:, None, :]
        gradient = np.empty_like(flat)
        errors = (weight.reshape(len(error), -1), inner, last, error[:, None])
        views = zip(self.networks(flat), mixed.activations, errors, self.networks(gradient), strict=True)
        for layers, activations, above, into in views:
            _backward(layers, activations, above, into)
        return gradient, down

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


def _backward(layers: Sequence[Layer], activations: Sequence[Array], error: Array, gradient: Sequence[Layer]) -> None:
    """Writes d loss / d parameters into `gradient`, given `error` = d loss / d output ``[rows, out]``."""
    for index in range(len(layers) - 1, -1, -1):
        below = activations[index]
        np.matmul(below.T, error, out=gradient[index][0])
        np.add.reduce(error, axis=0, out=gradient[index][1])
        if index:
            error = error @ layers[index][0].T
            error *= below > 0
