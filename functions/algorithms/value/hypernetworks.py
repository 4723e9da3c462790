"""Hypernetworks: perceptrons that compute the weights of a mixing network from the state; Ha et al., 2017.

Hidden layers are ReLU, the last layer is linear. All networks of a mixing network are one flat vector.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from functions.nn import mlp
from functions.nn.mlp import Array, Layer, from_tensors, to_tensors
from functions.nn.shape import Mlp


class Hypernetworks(NamedTuple):
    """The shapes of the networks by name, in the order of the flat vector."""

    shapes: Mapping[str, Mlp]

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]], prefix: str, names: Sequence[str]) -> tuple[Self, Array]:
        """Shapes and flat vector (a copy) of networks stored by `to_tensors`; raises `KeyError`."""
        parts = [from_tensors(tensors, f"{prefix}/{name}") for name in names]
        shapes = {name: shape for name, (shape, _) in zip(names, parts, strict=True)}
        return cls(shapes), np.concatenate([flat for _, flat in parts])

    @property
    def parameters(self) -> int:
        """The number of parameters of all networks."""
        return sum(shape.parameters for shape in self.shapes.values())

    def initialise(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """A flat vector, weights and biases uniform within ±1/√inputs, as in the code of QMIX's authors."""
        flat = np.empty(self.parameters, np.float32)
        for network in self._layers(flat):
            for weight, bias in network:
                bound = 1 / np.sqrt(len(weight))
                weight[...] = rng.uniform(-bound, bound, weight.shape)
                bias[...] = rng.uniform(-bound, bound, bias.shape)
        return flat

    def forward(self, flat: Array, inputs: Sequence[Array]) -> list[list[Array]]:
        """The activations of every network, its inputs ``[B, in]`` first, its outputs ``[B, out]`` last."""
        return [
            mlp.forward(layers, rows, rectified=True) for layers, rows in zip(self._layers(flat), inputs, strict=True)
        ]

    def backward(self, flat: Array, activations: Sequence[list[Array]], grad_outputs: Sequence[Array]) -> Array:
        """The parameters' gradient ``[parameters]``, given d loss / d outputs ``[B, out]`` of every network."""
        gradient = np.empty_like(flat)
        views = zip(self._layers(flat), activations, grad_outputs, self._layers(gradient), strict=True)
        for layers, own, above, into in views:
            mlp.backward(layers, own, above, into, rectified=True)
        return gradient

    def to_tensors(self, flat: Array, prefix: str) -> dict[str, Array]:
        """The networks as named layers ``<prefix>/<name>/w0 [in, out]``, ..., views of `flat`."""
        named: dict[str, Array] = {}
        for (name, shape), part in zip(self.shapes.items(), self._parts(flat), strict=True):
            named.update(to_tensors(shape, part, f"{prefix}/{name}"))
        return named

    def _layers(self, flat: Array) -> list[list[Layer]]:
        return [shape.layers(part) for shape, part in zip(self.shapes.values(), self._parts(flat), strict=True)]

    def _parts(self, flat: Array) -> list[Array]:
        ends = np.cumsum([shape.parameters for shape in self.shapes.values()])
        return np.split(flat, ends[:-1])
