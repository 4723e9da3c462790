"""The engine of perceptrons in C, whose bytes are the same on every processor. See `functions.algorithms.engine`.

It is the numpy engine but for the passes of feed-forward networks of single precision, the losses of the PPO family for
one choice, and Adam. Networks with memory are computed by numpy, and so are other losses, between passes in C.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from functions.algorithms.engine import AdamDescent, Engine, L, LossOf, Moments, OptimiserSettings, OptimiserStep
from functions.algorithms.engines.numpy_engine import LossGradient, NumpyEngine
from functions.algorithms.minibatches import Independent, Minibatches, Order
from functions.algorithms.stage import Tensors
from functions.nn import recurrent
from functions.nn.layers import Array
from functions.nn.native.calls import Optimiser, Perceptron, covers
from functions.nn.native.kernels import kernels
from functions.nn.native.losses import NativeLoss, native_loss
from functions.nn.shape import Network


class NativePasses:
    """See `functions.algorithms.engines.numpy_engine.PerceptronPasses`."""

    def __init__(self, network: Network, parameters: Array, gradient: Array) -> None:
        size = network.parameters - network.gaussian * network.sizes[-1]
        self._network, self._parameters, self._gradient = network, parameters[:size], gradient[:size]
        self._perceptron = Perceptron(network, most_rows=0)

    def room_for(self, rows: int) -> Perceptron:
        """The kernels' network, with room for so many rows."""
        if rows > self._perceptron.most_rows:
            self._perceptron = Perceptron(self._network, rows)
        return self._perceptron

    def forward(self, inputs: Array) -> Array:
        return self.room_for(len(inputs)).forward(self._parameters, np.ascontiguousarray(inputs, np.float32))

    def backward(self, grad_output: Array) -> None:
        self._perceptron.backward(np.ascontiguousarray(grad_output, np.float32), self._gradient)


class NativeDescent(AdamDescent):
    """A perceptron in training."""

    def __init__(self, network: Network, optimiser: Optimiser) -> None:
        self._passes: NativePasses

        def passes(*arguments: Any) -> NativePasses:
            self._passes = NativePasses(*arguments)
            return self._passes

        super().__init__(LossGradient(network, optimiser.parameters, passes), optimiser)
        self._native_optimiser = optimiser

    def learn(self, minibatches: Minibatches, loss_of: LossOf[L]) -> Iterator[OptimiserStep[L]]:
        """One step on the loss of each minibatch; those of a pass over the samples are taken at once."""
        loss, samples = native_loss(loss_of), minibatches.samples
        if loss is None or not isinstance(samples, Independent):
            yield from super().learn(minibatches, loss_of)
            return
        inputs = np.ascontiguousarray(samples.inputs, np.float32)
        for order in minibatches.orders:
            yield from self._pass(inputs, order, loss)

    def _pass(self, inputs: Array, order: Order, loss: NativeLoss) -> Iterator[OptimiserStep[Any]]:
        most_rows = max(end - start for start, end in itertools.pairwise(order.bounds))
        network = self._passes.room_for(most_rows)
        metrics, norms = network.train(self._native_optimiser, inputs, order.pieces, order.bounds, loss)
        for (start, end), norm in zip(itertools.pairwise(order.bounds), norms, strict=True):
            rows = order.pieces[start:end]
            yield OptimiserStep(loss.of(rows, metrics[:, start:end]), float(norm), rows)


class NativeEngine(NumpyEngine):
    """Perceptrons in C, and what these do not cover in numpy."""

    def loss_gradient(self, tensors: Tensors, prefix: str) -> LossGradient:
        network, flat = recurrent.from_tensors(tensors, prefix)
        return LossGradient(network, flat, NativePasses) if covers(network, flat) else LossGradient(network, flat)

    def descent(
        self, tensors: Tensors, prefix: str, settings: OptimiserSettings, moments: Moments | None = None
    ) -> AdamDescent:
        network, flat = recurrent.from_tensors(tensors, prefix)
        if not covers(network, flat):
            return super().descent(tensors, prefix, settings, moments)
        first, second, steps = moments or Moments(np.zeros_like(flat), np.zeros_like(flat), 0)
        return NativeDescent(network, Optimiser(flat, np.array(first), np.array(second), steps, *settings))


def engine(device: str, network: str) -> Engine:
    """The engine; it computes on the processor alone, whatever is asked for. Raises `MissingExtra` without kernels."""
    kernels()
    return NativeEngine()
