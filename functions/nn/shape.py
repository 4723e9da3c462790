"""The shapes of networks (lists of layers, or products of factories) in the form of storage next to the weights.

The parameters of a list of layers are one flat vector: the layers in forward order, their norms, and the log standard
deviations of a Gaussian policy, which ignore the input.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from math import prod
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.encoding import from_json, to_json
from marless.functions.nn.layers import Array, Gru, Layer, Linear, Shape, Tanh

Kind = type[Layer]

# The name of the empty tensor that marks policies with clipped continuous actions.
CLIPPED = "clip"

# The names of a network's tensors: its shape as JSON, its graph for ONNX Runtime, and the prefix of its parameters.
SHAPE, GRAPH, PARAMETERS = "shape", "graph", "net/"


@dataclass(frozen=True)
class Network:
    """The shape of a perceptron. Its last hidden layer may be a gated recurrent unit (GRU).

    `sizes` are the widths from input to output. A `recurrent` network has at least one hidden layer. `gaussian`: it has
    a `log_std`. `activation`: the activation of its hidden layers. `clipped`: samples of the Gaussian are clipped to
    the bounds. `norm`: the norm of its hidden layers, if any. `front`: its first layer if that is no linear one.
    """

    sizes: tuple[int, ...]
    recurrent: bool = False
    gaussian: bool = False
    activation: Kind = Tanh
    clipped: bool = False
    norm: Kind | None = None
    front: Kind | None = None

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return _layout(self).parameters

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.sizes[-1] - (0 if self.front is None else self.front.surplus(self.sizes[1]))

    @property
    def hidden_size(self) -> int:
        """The width of the hidden state, 0 for feed-forward networks."""
        return self.sizes[-2] if self.recurrent else 0

    @property
    def marks(self) -> tuple[str, ...]:
        """The names of the empty tensors that tell in storage the kind of activation, and that samples are clipped."""
        return _layout(self).marks

    def layers(self, flat: Array) -> list[Layer]:
        """The layers, their parameters views into a flat vector ``[parameters]``."""
        return [segment.layer(flat) for segment in _layout(self).segments]

    def matrices(self, flat: Array) -> list[Array]:
        """Views ``[in + 1, out]`` into the flat vector of a feed-forward network, one for each linear layer: weight
        and, as last row, bias."""
        places = (segment.place for segment in _layout(self).segments if segment.kind is Linear)
        return [flat[place].reshape(-1, width) for place, width in zip(places, self.sizes[1:], strict=True)]


class Segment(NamedTuple):
    """The part of a flat vector with the parameters of a layer: where it is, and where each parameter is and its
    shape."""

    kind: Kind
    place: slice
    parameters: list[tuple[slice, Shape]]

    def layer(self, flat: Array) -> Layer:
        """The layer, its parameters views into the flat vector."""
        return self.kind(*[flat[place].reshape(shape) for place, shape in self.parameters])


class ParameterLayout(NamedTuple):
    """A network's place in a flat vector and in storage. It has the segments of its layers in forward order, the number
    of its parameters, and the names of its empty tensors."""

    segments: list[Segment]
    parameters: int
    marks: tuple[str, ...]


@cache
def _layout(network: Network) -> ParameterLayout:
    hidden = len(network.sizes) - 2
    kinds = layer_kinds(hidden, network.recurrent, network.activation, network.norm, network.front)
    widths, shapes = iter(network.sizes), []
    width = next(widths)
    for kind in kinds:
        inputs, width = width, next(widths) if kind.entry else width
        shapes.append(kind.shapes(inputs, width))
    segments, start = {}, 0
    for index in stored_order(kinds):
        ends = list(accumulate(map(prod, shapes[index]), initial=start))
        places = [slice(*pair) for pair in pairwise(ends)]
        segments[index] = Segment(kinds[index], slice(start, ends[-1]), list(zip(places, shapes[index], strict=True)))
        start = ends[-1]
    marks = (network.activation.mark, CLIPPED if network.clipped else "")
    return ParameterLayout(
        [segments[index] for index in range(len(kinds))],
        start + network.gaussian * network.sizes[-1],
        tuple(mark for mark in marks if mark),
    )


def stored_order(kinds: Sequence[Kind]) -> list[int]:
    """The indices of layers in the order of the flat vector."""
    return sorted(range(len(kinds)), key=lambda index: kinds[index].is_norm)


@cache
def tensor_names(kinds: tuple[Kind, ...]) -> list[tuple[str, ...]]:
    """Return the names of each layer's parameters in storage."""
    counts: Counter[Kind] = Counter()
    names = []
    for kind in kinds:
        number = str(counts[kind]) if kind.has_number else ""
        names.append(tuple(name + number for name in kind.names))
        counts[kind] += 1
    return names


def layer_kinds(
    hidden: int, recurrent: bool, activation: Kind, norm: Kind | None, front: Kind | None = None
) -> tuple[Kind, ...]:
    """The kinds of the layers of a network with so many hidden layers. `front` is the first of them if it is given.

    A norm is before the activation, and after a GRU, like the code of MAPPO (Yu et al., 2022, `RNNLayer`). It
    normalises the next layer's inputs and leaves the hidden state.
    """
    if front is not None:
        return (front, *layer_kinds(hidden - 1, recurrent, activation, norm))
    norms = () if norm is None else (norm,)
    kinds = (Linear, *norms, activation) * (hidden - recurrent)
    return (*kinds, Gru, *norms, Linear) if recurrent else (*kinds, Linear)


class FactoryShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of all: `factory` is its name."""

    factory: str

    @property
    def setting(self) -> str:
        """The setting that names the factory, with its value."""
        raise NotImplementedError

    def encode(self) -> NDArray[np.uint8]:
        """The shape as a tensor."""
        return np.frombuffer(to_json(self), np.uint8)

    @classmethod
    def decode(cls, tensor: NDArray[Any]) -> Self:
        """The inverse of `encode`. Raises `ValueError` for anything else."""
        return from_json(np.asarray(tensor, np.uint8).tobytes(), cls)


class NetworkShape(FactoryShape, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The shape for a factory of modules: ``module(observation, rest)`` is ``[B, outputs]``.

    A row of inputs is an `observation` ``[B, *observation]`` (an image ``[H, W, C]``, a set of entities ``[N,
    features]`` or a vector) and the `rest` ``[B, rest]``. The rest is the agent's one-hot, or actions. `hidden` are the
    widths of the configuration. Weights of the last layer are to begin with the gain `output_gain`.
    """

    observation: tuple[int, ...]
    rest: int
    outputs: int
    hidden: tuple[int, ...]
    output_gain: float

    @property
    def setting(self) -> str:
        return f"algorithm.network={self.factory}"

    @property
    def width(self) -> int:
        """The numbers of an observation."""
        return int(np.prod(self.observation))


class MixerShape(FactoryShape, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The shape for a factory of mixing networks: ``module(utilities, state, alive)`` is ``[B]``, the joint values.

    The inputs are the utilities ``[B, agents]`` of a side, 0 for dead agents, the state ``[B, state]``, and which
    agents are alive ``[B, agents]``. The other fields are settings of the configuration.
    """

    agents: int
    state: int
    mixing_embed_dim: int
    hypernet_embed: int

    @property
    def setting(self) -> str:
        return f"algorithm.mixer={self.factory}"
