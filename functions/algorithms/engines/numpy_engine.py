"""The engine of perceptrons and GRUs in numpy, with gradients in closed form. See
`marless.functions.algorithms.engine`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.engine import AdamDescent, Engine, L, LossesOf, LossOf, Moments, OptimiserSettings
from marless.functions.algorithms.minibatches import Minibatch
from marless.functions.algorithms.stage import Tensors
from marless.functions.errors import BadRequest
from marless.functions.nn import recurrent
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Weights
from marless.functions.nn.shape import Network, NetworkShape
from marless.functions.nn.training_passes import Passes


class FlatGradient:
    """The gradient of a loss by the flat parameters of a network, which may change between calls. Engines compute it in
    `_forward` and `at`."""

    def __init__(self, network: Network, parameters: Array, weights: Weights) -> None:
        """`weights` are views into the parameters."""
        self._parameters, self._gradient, self.weights = parameters, np.zeros_like(parameters), weights
        self._grad_log_std = self._gradient[-network.sizes[-1] :] if network.gaussian else None

    def assign(self, parameters: Array) -> None:
        """Sets the network's parameters ``[parameters]``."""
        self._parameters[...] = parameters

    def of(self, part: Minibatch, loss_of: LossOf[L]) -> tuple[L, Array]:
        """The loss of a minibatch and its gradient ``[parameters]``. The next call overwrites the gradient."""
        return next(self.each(part, lambda *rows: [loss_of(*rows)]))

    def each(self, part: Minibatch, losses_of: LossesOf[L]) -> Iterator[tuple[L, Array]]:
        """Several losses of a minibatch after one forward pass, each with its gradient ``[parameters]``, which the next
        overwrites."""
        outputs, backward = self._forward(part)
        for loss in losses_of(outputs, self.weights.log_std, part.rows):
            backward(loss.grad_output)
            if self._grad_log_std is not None and loss.grad_log_std is not None:
                self._grad_log_std[...] = loss.grad_log_std
            yield loss, self._gradient

    def _forward(self, part: Minibatch) -> tuple[Array, Callable[[Array], object]]:
        """The rows' outputs, and a function that writes the gradient from d loss / d outputs of the rows."""
        raise NotImplementedError

    def at(self, trace: Any, grad_output: Array) -> Array:
        """The gradient from d loss / d outputs of a forward pass. The next call overwrites it."""
        raise NotImplementedError


class NumpyLossGradient(FlatGradient):
    """That of perceptrons and GRUs in numpy."""

    weights: recurrent.LayeredWeights

    def __init__(self, network: Network, parameters: Array) -> None:
        super().__init__(network, parameters, recurrent.views(network, parameters))
        self._views = recurrent.views(network, self._gradient)
        has_passes = not network.recurrent and network.front is None
        self._passes = Passes(network, parameters, self._gradient) if has_passes else None

    def _forward(self, part: Minibatch) -> tuple[Array, Callable[[Array], object]]:
        if self._passes is not None:
            return self._passes.forward(part.inputs), self._passes.backward
        trace = self.weights.forward(part.inputs, part.starts, part.first)

        def backward(grad_output: Array) -> None:
            self.weights.backward(trace, part.scatter(grad_output), self._views)

        return part.select(trace.outputs), backward

    def at(self, trace: recurrent.LayeredTrace, grad_output: Array) -> Array:
        self.weights.backward(trace, grad_output, self._views)
        return self._gradient


class NumpyEngine(Engine):
    """Perceptrons and GRUs."""

    def weights(self, tensors: Mapping[str, NDArray[Any]], prefix: str) -> Weights:
        return recurrent.weights_of(tensors, prefix)

    def initial_tensors(self, shape: NetworkShape, rng: np.random.Generator, acts: bool) -> dict[str, Array]:
        """Raises `BadRequest`: modules are torch's."""
        raise BadRequest(f"algorithm.network={shape.factory} needs algorithm.engine=torch")

    def loss_gradient(self, tensors: Tensors, prefix: str) -> FlatGradient:
        return NumpyLossGradient(*recurrent.from_tensors(tensors, prefix))

    def descent(
        self, tensors: Tensors, prefix: str, settings: OptimiserSettings, moments: Moments | None = None
    ) -> AdamDescent:
        network, flat = recurrent.from_tensors(tensors, prefix)
        return AdamDescent(NumpyLossGradient(network, flat), self.optimiser(flat, settings, moments))


NUMPY: Engine = NumpyEngine()


def engine(device: str, network: str) -> Engine:
    """The engine, which computes perceptrons and GRUs on the CPU."""
    return NUMPY
