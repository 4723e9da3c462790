"""The engine of perceptrons in C, with the same bytes on every processor. See `marless.functions.algorithms.engine`.

C computes passes of feed-forward networks of single precision, PPO losses for one choice, and Adam. Numpy computes
networks with memory, and other losses between passes in C.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from marless.functions.algorithms import engine as engines
from marless.functions.algorithms.engine import (
    AdamDescent,
    Engine,
    L,
    LossOf,
    Moments,
    OptimiserSettings,
    OptimiserStep,
)
from marless.functions.algorithms.engines.numpy_engine import FlatGradient, NumpyEngine, NumpyLossGradient
from marless.functions.algorithms.minibatches import Independent, Minibatch, Minibatches, RowIndices
from marless.functions.algorithms.stage import Tensors
from marless.functions.native.arithmetic import NATIVE, Arithmetic
from marless.functions.native.kernels import kernels
from marless.functions.nn import recurrent
from marless.functions.nn.adam import finite_norm
from marless.functions.nn.layers import Array
from marless.functions.nn.native.calls import NativeOptimiser, covers
from marless.functions.nn.native.losses import NativeLoss, native_loss
from marless.functions.nn.native.random_matrices import orthogonal
from marless.functions.nn.native.weights import PerceptronTrace, PerceptronWeights
from marless.functions.nn.networks import Weights
from marless.functions.nn.shape import Network


class NativeAdam(NativeOptimiser):
    """Adam in C."""

    def step(self, gradient: Array) -> float:
        """See `marless.functions.algorithms.engine.Optimiser`."""
        return finite_norm(super().step(gradient))


class NativeLossGradient(FlatGradient):
    """The gradient of a perceptron's loss."""

    weights: PerceptronWeights

    def __init__(self, network: Network, parameters: Array) -> None:
        super().__init__(network, parameters, PerceptronWeights(network, parameters))

    def _forward(self, part: Minibatch) -> tuple[Array, Callable[[Array], object]]:
        trace = self.weights.forward(part.inputs)
        return trace.outputs, partial(self.at, trace)

    def at(self, trace: PerceptronTrace, grad_output: Array) -> Array:
        self.weights.backward(trace, grad_output, self._gradient)
        return self._gradient


class NativeDescent(AdamDescent):
    """A perceptron in training."""

    def __init__(self, network: Network, optimiser: NativeOptimiser) -> None:
        loss_gradient = NativeLossGradient(network, optimiser.parameters)
        super().__init__(loss_gradient, optimiser)
        self._native_weights, self._native_optimiser = loss_gradient.weights, optimiser

    def learn(self, minibatches: Minibatches, loss_of: LossOf[L]) -> Sequence[OptimiserStep[L]]:
        """One step on the loss of each minibatch, all in one call where the kernels compute the loss."""
        loss, samples = native_loss(loss_of), minibatches.samples
        if loss is None or not isinstance(samples, Independent):
            return super().learn(minibatches, loss_of)
        orders = list(minibatches.orders)
        pieces, edges = np.concatenate([order.pieces for order in orders]), [0]
        for order in orders:
            edges += [edges[-1] + end for end in order.bounds[1:]]
        return self._steps(np.ascontiguousarray(samples.inputs, np.float32), pieces, edges, loss) if edges[1:] else []

    def _steps(
        self, inputs: Array, pieces: RowIndices, edges: Sequence[int], loss: NativeLoss
    ) -> Sequence[OptimiserStep[Any]]:
        metrics, losses, norms = self._native_weights.train(self._native_optimiser, inputs, pieces, edges, loss)
        parts = [slice(*pair) for pair in itertools.pairwise(edges)]
        return [
            OptimiserStep(loss.of(mean, metrics[:, part]), finite_norm(norm), pieces[part])
            for part, mean, norm in zip(parts, losses.tolist(), norms.tolist(), strict=True)
        ]


class NativeEngine(NumpyEngine):
    """Perceptrons in C, and all other networks in numpy."""

    arithmetic: Arithmetic = NATIVE

    def perceptron(self, network: Network, parameters: Array) -> engines.Perceptron:
        is_covered = covers(network, parameters)
        return PerceptronWeights(network, parameters) if is_covered else super().perceptron(network, parameters)

    def optimiser(
        self, parameters: Array, settings: OptimiserSettings, moments: Moments | None = None
    ) -> engines.Optimiser:
        is_single = parameters.dtype == np.float32
        return (_adam if is_single else super().optimiser)(parameters, settings, moments)

    def initial_parameters(self, network: Network, rng: np.random.Generator, output_gain: float) -> Array:
        return recurrent.initialise(network, rng, output_gain, orthogonal)

    def weights(self, tensors: Tensors, prefix: str) -> Weights:
        network, flat = recurrent.from_tensors(tensors, prefix)
        is_covered = covers(network, flat)
        return PerceptronWeights(network, flat, trains=False) if is_covered else super().weights(tensors, prefix)

    def loss_gradient(self, tensors: Tensors, prefix: str) -> FlatGradient:
        network, flat = recurrent.from_tensors(tensors, prefix)
        return NativeLossGradient(network, flat) if covers(network, flat) else NumpyLossGradient(network, flat)

    def descent(
        self, tensors: Tensors, prefix: str, settings: OptimiserSettings, moments: Moments | None = None
    ) -> AdamDescent:
        network, flat = recurrent.from_tensors(tensors, prefix)
        if not covers(network, flat):
            return super().descent(tensors, prefix, settings, moments)
        return NativeDescent(network, _adam(flat, settings, moments))


def _adam(parameters: Array, settings: OptimiserSettings, moments: Moments | None) -> NativeOptimiser:
    first, second, steps = moments or Moments(np.zeros_like(parameters), np.zeros_like(parameters), 0)
    return NativeAdam(parameters, np.array(first), np.array(second), steps, *settings)


def engine(device: str, network: str) -> Engine:
    """The engine, which computes on the CPU. Raises `MissingExtra` without kernels."""
    kernels()
    return NativeEngine()
