"""Hypernetworks (Ha et al., 2017): perceptrons that compute the weights of a mixing network from the state.

Hidden layers are ReLU, the last layer is linear. All networks of a mixing network are one flat vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.engine import Engine, Perceptron
from marless.functions.algorithms.engines.numpy_engine import NUMPY
from marless.functions.algorithms.value.specs import MixerSizes, hypernetwork
from marless.functions.nn import recurrent
from marless.functions.nn.layers import Array
from marless.functions.nn.shape import Network


class HypernetworkTrace(NamedTuple):
    """A forward pass of one of the networks: the network and its own trace."""

    network: Perceptron
    trace: Any

    @property
    def outputs(self) -> Array:
        """The outputs ``[B, out]``."""
        return np.asarray(self.trace.outputs)


class Hypernetworks(NamedTuple):
    """The shapes of the networks by name, in the order of the flat vector, and the engine that computes them."""

    shapes: Mapping[str, Network]
    engine: Engine = NUMPY

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]], prefix: str, names: Sequence[str]) -> tuple[Self, Array]:
        """Shapes and flat vector (a copy) of networks stored by `to_tensors`. Raises `KeyError`."""
        parts = [recurrent.from_tensors(tensors, f"{prefix}/{name}") for name in names]
        shapes = {name: hypernetwork(network.sizes) for name, (network, _) in zip(names, parts, strict=True)}
        return cls(shapes), np.concatenate([flat for _, flat in parts])

    @property
    def parameters(self) -> int:
        """The number of parameters of all networks."""
        return sum(shape.parameters for shape in self.shapes.values())

    def initialise(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """A flat vector, weights and biases uniform within ±1/√inputs, like the code of QMIX's authors."""
        flat = np.empty(self.parameters, np.float32)
        for shape, parameters in zip(self.shapes.values(), self._parts(flat), strict=True):
            for matrix in shape.matrices(parameters):
                weight, bias = matrix[:-1], matrix[-1]
                bound = 1 / np.sqrt(len(weight))
                for part in (weight, bias):
                    part[...] = 2 * bound * rng.random(part.shape) - bound  # `uniform` fuses the two on some machines
        return flat

    def forward(self, flat: Array, inputs: Sequence[Array]) -> list[HypernetworkTrace]:
        """The passes of every network over its inputs ``[B, in]``."""
        parts = zip(self.shapes.values(), self._parts(flat), strict=True)
        networks = [self.engine.perceptron(shape, part) for shape, part in parts]
        return [HypernetworkTrace(net, net.forward(rows)) for net, rows in zip(networks, inputs, strict=True)]

    def backward(self, flat: Array, traces: Sequence[HypernetworkTrace], grad_outputs: Sequence[Array]) -> Array:
        """The parameters' gradient ``[parameters]``, given d loss / d outputs ``[B, out]`` of every network."""
        gradient = np.empty_like(flat)
        for (network, trace), grad_output, into in zip(traces, grad_outputs, self._parts(gradient), strict=True):
            network.backward(trace, grad_output, into)
        return gradient

    def to_tensors(self, flat: Array, prefix: str) -> dict[str, Array]:
        """The networks as named layers ``<prefix>/<name>/w0 [in, out]``, ..., views of `flat`, without a mark of their
        activation."""
        stored_tensors: dict[str, Array] = {}
        for (name, shape), part in zip(self.shapes.items(), self._parts(flat), strict=True):
            tensors = recurrent.views(shape, part)._replace(marks=()).to_tensors()
            stored_tensors |= {f"{prefix}/{name}/{tensor}": array for tensor, array in tensors.items()}
        return stored_tensors

    def _parts(self, flat: Array) -> list[Array]:
        ends = accumulate((shape.parameters for shape in self.shapes.values()), initial=0)
        return [flat[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True)
class HypernetworkMixer(MixerSizes):
    """A mixing network. Hypernetworks compute its parameters."""

    engine: Engine = field(default=NUMPY, repr=False, kw_only=True)

    @property
    def hypernetworks(self) -> Hypernetworks:
        """The networks of `shapes`."""
        return Hypernetworks(self.shapes, self.engine)

    def to_tensors(self, flat: Array, prefix: str) -> dict[str, Array]:
        """See `Hypernetworks.to_tensors`."""
        return self.hypernetworks.to_tensors(flat, prefix)
