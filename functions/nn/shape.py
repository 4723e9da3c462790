"""The shapes of networks: perceptrons, GRUs, and what factories make, as they are stored beside the weights."""

import itertools
from dataclasses import dataclass
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from functions.encoding import from_json, to_json

Array = NDArray[Any]

# The names of a network's tensors: its shape as JSON, its graph for ONNX Runtime, and the prefix of its parameters.
SHAPE, GRAPH, PARAMETERS = "shape", "graph", "net/"


@dataclass(frozen=True)
class Mlp:
    """The shape of a perceptron: `sizes` are the widths from input to output."""

    sizes: tuple[int, ...]

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum((inputs + 1) * outputs for inputs, outputs in itertools.pairwise(self.sizes))

    def layers(self, flat: Array) -> list[tuple[Array, Array]]:
        """Views ``(weight [in, out], bias [out])`` into a flat vector ``[parameters]``."""
        views, start = [], 0
        for inputs, outputs in itertools.pairwise(self.sizes):
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            views.append((flat[start:middle].reshape(inputs, outputs), flat[middle:end]))
            start = end
        return views


@dataclass(frozen=True)
class Network:
    """The shape of a perceptron, or of one whose last hidden layer is a gated recurrent unit (GRU).

    `sizes` are the widths from input to output; a `recurrent` network has at least one hidden layer. `gaussian`: it has
    a `log_std`. `rectified`: its hidden layers are ReLU. `clipped`: samples of the Gaussian are clipped to the bounds.
    `layer_norm`: its hidden layers are normalised.
    """

    sizes: tuple[int, ...]
    recurrent: bool = False
    gaussian: bool = False
    rectified: bool = False
    clipped: bool = False
    layer_norm: bool = False

    @property
    def parameters(self) -> int:
        """The number of parameters, in forward order: below the cell, of it, above it, of norms, of `log_std`."""
        return self.below + self.cell + self.above + self.norms + self.gaussian * self.sizes[-1]

    @property
    def hidden_size(self) -> int:
        """The width of the hidden state, 0 for feed-forward networks."""
        return self.sizes[-2] if self.recurrent else 0

    @property
    def below(self) -> int:
        """The number of parameters below the cell, 0 without one."""
        return Mlp(self.sizes[:-2]).parameters if self.recurrent else 0

    @property
    def cell(self) -> int:
        """The number of parameters of the cell."""
        return (self.sizes[-3] + self.hidden_size + 2) * 3 * self.hidden_size if self.recurrent else 0

    @property
    def above(self) -> int:
        """The number of parameters above the cell, of all layers without one."""
        return Mlp(self.sizes[-2:] if self.recurrent else self.sizes).parameters

    @property
    def norms(self) -> int:
        """The number of parameters of layer norms."""
        return 2 * sum(self.sizes[1:-1]) if self.layer_norm else 0


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
        """The inverse of `encode`; raises `ValueError` for anything else."""
        return from_json(np.asarray(tensor, np.uint8).tobytes(), cls)


class NetworkShape(FactoryShape, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a factory makes a module of: ``module(observation, rest)`` is ``[B, outputs]``.

    A row of inputs is an `observation` ``[B, *observation]``, an image ``[H, W, C]``, a set of
    entities ``[N, features]`` or a vector, and the `rest` ``[B, rest]``: the agent's one-hot, or actions. `hidden` are
    the widths of the configuration. Weights of the last layer are to begin with the gain `output_gain`.
    """

    observation: tuple[int, ...]
    rest: int
    outputs: int
    hidden: tuple[int, ...]
    output_gain: float

    @property
    def setting(self) -> str:
        """See `FactoryShape`."""
        return f"algorithm.network={self.factory}"

    @property
    def any_number(self) -> bool:
        """Whether the network takes any number of entities."""
        return self.factory == "attention"

    @property
    def width(self) -> int:
        """The numbers of an observation."""
        return int(np.prod(self.observation))


class MixerShape(FactoryShape, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a factory makes a mixing network of: ``module(utilities, state, alive)`` is ``[B]``, the joint values.

    The inputs are the utilities ``[B, agents]`` of a side, 0 for dead agents, the state ``[B, state]``, and which
    agents are alive ``[B, agents]``. The other fields are settings of the configuration.
    """

    agents: int
    state: int
    mixing_embed_dim: int
    hypernet_embed: int

    @property
    def setting(self) -> str:
        """See `FactoryShape`."""
        return f"algorithm.mixer={self.factory}"
