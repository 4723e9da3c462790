"""Separate perceptrons of several agents in torch, stacked in batched products.

Batched products are the fastest way in plain torch at this size. Separate modules take at least a quarter longer.
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from marless.functions.keys import group_name
from marless.functions.nn.batched_acting import BatchedNetwork
from marless.functions.nn.layers import Array, Layer, Linear, Relu, Tanh


class Activation(NamedTuple):
    """An activation of hidden layers: in place in torch, and as a layer of actors."""

    in_place: str
    layer: type[Layer]


ACTIVATIONS = {"tanh": Activation("tanh_", Tanh), "relu": Activation("relu_", Relu)}


class Networks:
    """N separate perceptrons with the same layers: weights ``[N, in, out]``, biases ``[N, 1, out]``."""

    def __init__(self, weights: list[Array], biases: list[Array], activation: str = "tanh") -> None:
        self.weights, self.biases = (
            [nn.Parameter(torch.from_numpy(np.array(array))) for array in arrays] for arrays in (weights, biases)
        )
        self.parameters = [*self.weights, *self.biases]
        self._activation = ACTIVATIONS[activation]

    @classmethod
    def of(cls, tensors: Mapping[str, Array], part: str, agents: int, activation: str) -> Self:
        """Return the networks of a part, `policy` or `critic`, with the weights in the tensors."""
        names = [f"{part}/{group_name(agent)}" for agent in range(agents)]
        layers = range(sum(name.startswith(f"{names[0]}/w") for name in tensors))
        weights = [np.stack([tensors[f"{name}/w{layer}"] for name in names]) for layer in layers]
        biases = [np.stack([tensors[f"{name}/b{layer}"] for name in names])[:, None] for layer in layers]
        return cls(weights, biases, activation)

    def __call__(self, x: Tensor) -> Tensor:
        """Return outputs ``[N, rows, out]`` for inputs ``[N, rows, in]``."""
        *inner, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for inner_weight, inner_bias in inner:
            x = getattr(torch.baddbmm(inner_bias, x, inner_weight), self._activation.in_place)()
        return torch.baddbmm(bias, x, weight)

    def cap_gradients(self, most: float) -> None:
        """Scale each network's gradient to a norm of at most `most`."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norms = torch.stack([torch.linalg.vector_norm(gradient, dim=(1, 2)) for gradient in gradients])
        scale = (most / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp_(max=1.0)[:, None, None]
        for gradient in gradients:
            gradient.mul_(scale)

    def in_numpy(self) -> BatchedNetwork:
        """Return the same networks for actors. The arrays share memory with the parameters."""
        weights, biases = (tuple(p.detach().numpy() for p in part) for part in (self.weights, self.biases))
        layers = [
            layer
            for parameters in zip(weights, biases, strict=True)
            for layer in (Linear(*parameters), self._activation.layer())
        ]
        return BatchedNetwork(layers[:-1])
