"""Training of a network: parameters, gradient and optimiser as flat vectors."""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from functions.algorithms.base import Context
from functions.algorithms.chunks import Minibatch, RowIndices, Samples, shuffled_minibatches
from functions.nn import recurrent
from functions.nn.adam import Adam
from functions.nn.mlp import Array, Mlp
from functions.nn.passes import Passes
from functions.nn.recurrent import Network, Trace, Weights
from functions.randomness import generator


class OptimiserConfig(Protocol):
    """The settings of Adam; `lr` is None only in configurations that are not resolved."""

    @property
    def lr(self) -> float | None: ...

    @property
    def adam_eps(self) -> float: ...

    @property
    def max_grad_norm(self) -> float: ...


class EpochConfig(Protocol):
    """The settings of passes over a round's data."""

    @property
    def epochs(self) -> int: ...

    @property
    def num_minibatches(self) -> int: ...


class Loss(Protocol):
    """The gradient of a batch's loss: `grad_output` ``[B, out]`` at the outputs, `grad_log_std` at a head's own
    parameters."""

    @property
    def grad_output(self) -> Array: ...

    @property
    def grad_log_std(self) -> Array | None: ...


L = TypeVar("L", bound=Loss)
LossOf = Callable[[Array, Array | None, RowIndices], L]
"""The loss of the rows with some indices, from their outputs and the network's log_std."""


class OptimiserStep(NamedTuple, Generic[L]):
    """An optimiser step: the loss before it, the gradient's norm before clipping, and the indices of its rows."""

    loss: L
    norm: float
    rows: RowIndices


class LossGradient:
    """The gradient of a loss by a network's flat parameters, which may change between calls."""

    def __init__(self, network: Network, parameters: Array) -> None:
        self._gradient = np.zeros_like(parameters)
        self.weights, self._views = network.weights(parameters), network.weights(self._gradient)
        self._passes = None
        if not network.recurrent:
            self._passes = Passes(Mlp(network.sizes), parameters, self._gradient, network.rectified)

    def of(self, part: Minibatch, loss_of: LossOf[L]) -> tuple[L, Array]:
        """The loss of a minibatch and its gradient ``[parameters]``; the next call overwrites the gradient."""
        if self._passes is not None:
            loss = loss_of(self._passes.forward(part.inputs), self.weights.log_std, part.rows)
            self._passes.backward(loss.grad_output)
        else:
            trace = recurrent.forward(self.weights, part.inputs, part.starts, part.first)
            loss = loss_of(part.select(trace.outputs), self.weights.log_std, part.rows)
            recurrent.backward(self.weights, trace, part.scatter(loss.grad_output), self._views)
        if self._views.log_std is not None and loss.grad_log_std is not None:
            self._views.log_std[...] = loss.grad_log_std
        return loss, self._gradient

    def at(self, trace: Trace, grad_output: Array) -> Array:
        """The gradient from d loss / d outputs of a forward pass; the next call overwrites it."""
        recurrent.backward(self.weights, trace, grad_output, self._views)
        return self._gradient


class Trainable:
    """A network and its optimiser."""

    def __init__(self, network: Network, optimiser: Adam) -> None:
        self._network, self._optimiser = network, optimiser
        self._loss_gradient = LossGradient(network, optimiser.parameters)

    @classmethod
    def load(cls, context: Context[OptimiserConfig], part: str, name: str, lr: float | None = None) -> Self:
        """The network `<part>/<name>` and its moments, copied out of the context's tensors.

        `lr` replaces the configuration's step size. Raises `ValueError` when there is neither.
        """
        lr = context.config.lr if lr is None else lr
        if lr is None:
            raise ValueError("the configuration has no step size; resolve it first")
        network, flat = recurrent.from_tensors(context.tensors, f"{part}/{name}")
        prefix, config = f"{part}_optimiser/{name}", context.config
        first, second = (np.array(context.tensors[f"{prefix}/{moment}"]) for moment in ("first", "second"))
        steps = int(context.tensors[f"{prefix}/steps"][0])
        return cls(network, Adam(flat, first, second, steps, lr, config.adam_eps, config.max_grad_norm))

    @property
    def weights(self) -> Weights:
        """The network's weights."""
        return self._loss_gradient.weights

    def descend(self, trace: Trace, grad_output: Array) -> float:
        """One step along d loss / d outputs of a forward pass with the current weights; returns the gradient's norm."""
        return self._optimiser.step(self._loss_gradient.at(trace, grad_output))

    def learn(self, minibatches: Iterable[Minibatch], loss_of: LossOf[L]) -> list[OptimiserStep[L]]:
        """One step per minibatch."""
        steps = []
        for part in minibatches:
            loss, gradient = self._loss_gradient.of(part, loss_of)
            steps.append(OptimiserStep(loss, self._optimiser.step(gradient), part.rows))
        return steps

    def tensors(self, part: str, name: str) -> dict[str, Array]:
        """The network and its moments by name."""
        prefix, optimiser = f"{part}_optimiser/{name}", self._optimiser
        return {
            **recurrent.to_tensors(self._network, optimiser.parameters, f"{part}/{name}"),
            f"{prefix}/first": optimiser.first,
            f"{prefix}/second": optimiser.second,
            f"{prefix}/steps": np.array([optimiser.steps], np.int64),
        }


def minibatches(pieces: Samples, context: Context[EpochConfig], stage: str, group: int) -> Iterable[Minibatch]:
    """The minibatches of all epochs, shuffled at the random address (seed, round, stage, group)."""
    rng = generator(context.seed, context.round, stage, group)
    return shuffled_minibatches(pieces, rng, context.config.epochs, context.config.num_minibatches)


def last_epoch(steps: list[OptimiserStep[L]], epochs: int) -> list[OptimiserStep[L]]:
    """The steps of the last epoch."""
    return steps[len(steps) - len(steps) // epochs :]


def outputs(weights: Weights, pieces: Samples) -> Array:
    """The network's outputs for all rows ``[B, out]``."""
    part = pieces.part(np.arange(len(pieces)))
    picked = part.select(recurrent.forward(weights, part.inputs, part.starts, part.first).outputs)
    ordered = np.empty_like(picked)
    ordered[part.rows] = picked
    return ordered


def trained_bytes(part: str, parameters: int) -> dict[str, int]:
    """The bytes of a network and of its Adam moments, by part."""
    network = parameters * np.dtype(np.float32).itemsize
    return {part: network, f"{part}_optimiser": 2 * network}


def moments(prefix: str, size: int) -> dict[str, Array]:
    """The moments of an optimiser before its first step, by name."""
    return {
        f"{prefix}/first": np.zeros(size, np.float32),
        f"{prefix}/second": np.zeros(size, np.float32),
        f"{prefix}/steps": np.zeros(1, np.int64),
    }
