"""What losses and mixing networks compute with between the passes of networks: numpy, or the kernels.

Names and results are numpy's. With the kernels, see `native_arithmetic`, they have the same bytes on every processor.
"""

from typing import Any, Protocol

import numpy as np

from functions.nn import recurrent
from functions.nn.adam import Adam
from functions.nn.layers import Array
from functions.nn.shape import Network


class Optimiser(Protocol):
    """Adam on one flat vector, see `functions.nn.adam.Adam`."""

    @property
    def parameters(self) -> Array: ...

    @property
    def first(self) -> Array: ...

    @property
    def second(self) -> Array: ...

    @property
    def steps(self) -> int: ...

    def step(self, gradient: Array) -> float:
        """Applies one update and returns the gradient's norm before clipping; `gradient` may be scaled in place."""


class Perceptron(Protocol):
    """A feed-forward network with flat parameters."""

    def forward(self, inputs: Array) -> Any:
        """The trace of rows ``[B, in]``, with their `outputs` ``[B, out]``."""

    def backward(self, trace: Any, grad_output: Array, gradient: Array) -> None:
        """Writes d loss / d parameters into the flat `gradient`, given d loss / d outputs ``[B, out]``."""


class Arithmetic(Protocol):
    """Arrays have the precision of the arguments."""

    def exp(self, numbers: Array) -> Array: ...

    def log(self, numbers: Array) -> Array: ...

    def tanh(self, numbers: Array) -> Array: ...

    def einsum(self, subscripts: str, first: Array, second: Array) -> Array:
        """As `numpy.einsum` of two arrays, each letter of which is an axis."""

    def perceptron(self, network: Network, parameters: Array) -> Perceptron:
        """The network with these flat parameters."""

    def adam(self, parameters: Array, first: Array, second: Array, steps: int, *settings: float) -> Optimiser:
        """The optimiser that changes the arrays; the `settings` are those of `Adam`."""


class NumpyPerceptron:
    """See `Perceptron`."""

    def __init__(self, network: Network, parameters: Array) -> None:
        self._network, self._weights = network, recurrent.views(network, parameters)

    def forward(self, inputs: Array) -> recurrent.Trace:
        return self._weights.forward(inputs)

    def backward(self, trace: recurrent.Trace, grad_output: Array, gradient: Array) -> None:
        self._weights.backward(trace, grad_output, recurrent.views(self._network, gradient))


class NumpyArithmetic(Arithmetic):
    """numpy's own."""

    def exp(self, numbers: Array) -> Array:
        return np.asarray(np.exp(numbers))

    def log(self, numbers: Array) -> Array:
        return np.asarray(np.log(numbers))

    def tanh(self, numbers: Array) -> Array:
        return np.asarray(np.tanh(numbers))

    def einsum(self, subscripts: str, first: Array, second: Array) -> Array:
        return np.asarray(np.einsum(subscripts, first, second))

    def perceptron(self, network: Network, parameters: Array) -> Perceptron:
        return NumpyPerceptron(network, parameters)

    def adam(self, parameters: Array, first: Array, second: Array, steps: int, *settings: float) -> Optimiser:
        return Adam(parameters, first, second, steps, *settings)


NUMPY: Arithmetic = NumpyArithmetic()
