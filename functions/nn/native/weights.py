"""The weights of a perceptron. The kernels compute its passes."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from marless.functions.native.kernels import RowIndices
from marless.functions.nn import recurrent
from marless.functions.nn.gru import Flags
from marless.functions.nn.layers import Array
from marless.functions.nn.native.calls import NativeOptimiser, NativePerceptron, Training, perceptron_parameters
from marless.functions.nn.native.losses import NativeLoss
from marless.functions.nn.networks import Weights
from marless.functions.nn.shape import Network


class PerceptronTrace(NamedTuple):
    """A forward pass: its `inputs` ``[rows, in]`` and `outputs` ``[..., out]``."""

    inputs: Array
    outputs: Array

    @property
    def hidden(self) -> Array:
        """Raises `ValueError`, as does `before`."""
        raise ValueError("a network without a GRU has no hidden state")

    @property
    def before(self) -> Array:
        return self.hidden


class PerceptronWeights(Weights):
    """See `marless.functions.nn.networks.Weights`. A network that the kernels cover, as its flat `parameters`, which
    may change. Only one that trains has backward passes."""

    hidden_size = 0

    def __init__(self, network: Network, parameters: Array, trains: bool = True) -> None:
        self._network, self._parameters = network, parameters
        self._size = perceptron_parameters(network)
        self._perceptron = NativePerceptron(network, trains)
        self._latest: PerceptronTrace | None = None

    @cached_property
    def _views(self) -> recurrent.LayeredWeights:
        return recurrent.views(self._network, self._parameters)

    @property
    def log_std(self) -> Array | None:
        return self._views.log_std

    @property
    def clips_actions(self) -> bool:
        return self._views.clips_actions

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._parameters.dtype

    def to_tensors(self) -> dict[str, Array]:
        return self._views.to_tensors()

    def forward(
        self, inputs: Array, starts: Flags | None = None, first: Array | None = None, burn_in: int = 0
    ) -> PerceptronTrace:
        """See `Weights.forward`. The other arguments are for networks with a hidden state."""
        rows = np.ascontiguousarray(inputs, np.float32).reshape(-1, inputs.shape[-1])
        outputs = self._perceptron.forward(self._parameters[: self._size], rows)
        self._latest = PerceptronTrace(rows, outputs.reshape(*inputs.shape[:-1], outputs.shape[-1]))
        return self._latest

    def backward(self, trace: PerceptronTrace, grad_output: Array, gradient: Array) -> None:
        """Writes d loss / d parameters into the flat `gradient`, given d loss / d outputs, shaped like them."""
        if trace is not self._latest:
            self._perceptron.forward(self._parameters[: self._size], trace.inputs)
            self._latest = trace
        rows = np.ascontiguousarray(grad_output, np.float32).reshape(-1, grad_output.shape[-1])
        self._perceptron.backward(rows, gradient[: self._size])

    def input_gradient(self, inputs: Array, grad_output: Array, first: Array | None = None) -> Array:
        return self._views.input_gradient(inputs, grad_output, first)

    def train(
        self, optimiser: NativeOptimiser, inputs: Array, order: RowIndices, bounds: Sequence[int], loss: NativeLoss
    ) -> Training:
        """See `NativePerceptron.train`. The parameters are the optimiser's."""
        self._latest = None
        return self._perceptron.train(optimiser, inputs, order, bounds, loss)
