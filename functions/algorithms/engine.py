"""Engines compute the outputs and gradients of networks, and their optimiser steps.

An algorithm computes a loss, and its gradient at a network's outputs. The engine computes the gradient at the
parameters. `numpy` has closed forms for perceptrons and GRUs (decision 17), `native` closed forms for perceptrons in C,
and `torch` differentiates automatically. All take and return arrays, and keep networks under the same names.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from marless.functions.algorithms.minibatches import Minibatch, Minibatches, RowIndices
from marless.functions.algorithms.stage import Context, Tensors
from marless.functions.errors import MissingExtra
from marless.functions.native.arithmetic import NUMPY, Arithmetic
from marless.functions.nn import recurrent
from marless.functions.nn.adam import Adam
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Weights
from marless.functions.nn.shape import Network, NetworkShape

# The modules of the engines. Each has a function `engine(device, network)`. A new run replaces `auto` by one of the
# others. The oldest runs computed with numpy.
MODULES = {
    "auto": "marless.functions.algorithms.engines.numpy_engine",
    "numpy": "marless.functions.algorithms.engines.numpy_engine",
    "native": "marless.functions.algorithms.engines.native_engine",
    "torch": "marless.functions.algorithms.engines.torch_engine",
}


class Loss(Protocol):
    """The gradient of a batch's loss."""

    @property
    def grad_output(self) -> Array:
        """Return the gradient at the outputs, ``[B, out]``."""

    @property
    def grad_log_std(self) -> Array | None:
        """Return the gradient at the head's own parameters, ``[out]``, or None if there are none."""


L = TypeVar("L", bound=Loss)
LossOf = Callable[[Array, Array | None, RowIndices], L]
"""The loss of the rows with some indices, from their outputs and the network's log_std."""
LossesOf = Callable[[Array, Array | None, RowIndices], Sequence[L]]
"""Several losses of the same rows."""


class OptimiserSettings(NamedTuple):
    """The settings of Adam, see `marless.functions.nn.adam`."""

    lr: float
    epsilon: float
    max_grad_norm: float


class Moments(NamedTuple):
    """The state of Adam: `first` and `second` ``[parameters]`` in forward order, after `steps` steps."""

    first: Array
    second: Array
    steps: int


class Optimiser(Protocol):
    """Adam on one flat vector, see `marless.functions.nn.adam.Adam`."""

    @property
    def first(self) -> Array:
        """Return the running mean of gradients, ``[parameters]``."""

    @property
    def second(self) -> Array:
        """Return the running mean of squared gradients, ``[parameters]``."""

    @property
    def steps(self) -> int:
        """Return the number of updates so far."""

    def step(self, gradient: Array) -> float:
        """Apply one update and return the gradient's norm before clipping. `gradient` may be scaled in place.

        Raises `NotFinite` if the norm overflows.
        """


class Perceptron(Protocol):
    """A feed-forward network with flat parameters."""

    def forward(self, inputs: Array) -> Any:
        """The trace of rows ``[B, in]``, with their `outputs` ``[B, out]``."""

    def backward(self, trace: Any, grad_output: Array, gradient: Array) -> None:
        """Writes d loss / d parameters into the flat `gradient`, given d loss / d outputs ``[B, out]``."""


class OptimiserStep(NamedTuple, Generic[L]):
    """An optimiser step: the loss before it, the gradient's norm before clipping, and the indices of its rows."""

    loss: L
    norm: float
    rows: RowIndices


class LossGradient(Protocol):
    """The gradient of a loss by a network's parameters."""

    @property
    def weights(self) -> Weights:
        """Return the weights in training."""

    def assign(self, parameters: Array) -> None:
        """Sets the network's parameters ``[parameters]``."""

    def of(self, part: Minibatch, loss_of: LossOf[L]) -> tuple[L, Array]:
        """The loss of a minibatch and its gradient ``[parameters]``. The next call overwrites the gradient."""

    def each(self, part: Minibatch, losses_of: LossesOf[L]) -> Iterator[tuple[L, Array]]:
        """Several losses of a minibatch after one forward pass, each with its gradient ``[parameters]``, which the next
        overwrites."""

    def at(self, trace: Any, grad_output: Array) -> Array:
        """The gradient from d loss / d outputs of a `trace` of `weights`. The next call overwrites it."""


class Descent(Protocol):
    """A network in training."""

    @property
    def weights(self) -> Weights:
        """The current weights."""

    @property
    def moments(self) -> Moments:
        """The current moments."""

    @property
    def difference(self) -> dict[str, Array]:
        """The trained tensors, by name, of a network that is the sum of a frozen network and a difference."""
        return {}

    def to_tensors(self) -> dict[str, Array]:
        """The network by the names of its tensors."""
        return self.weights.to_tensors()

    def learn(self, minibatches: Minibatches, loss_of: LossOf[L]) -> Sequence[OptimiserStep[L]]:
        """One step on the loss of each minibatch."""

    def along(self, trace: Any, grad_output: Array) -> float:
        """One step along d loss / d outputs of a `trace` of `weights`. Returns the gradient's norm before clipping."""

    def apply(self, gradient: Array) -> float:
        """One step along the gradient ``[parameters]`` of a loss. Returns its norm before clipping."""


class AdamDescent(Descent):
    """A network in training by our own Adam, which the network follows."""

    def __init__(self, loss_gradient: LossGradient, optimiser: Optimiser) -> None:
        self._loss_gradient, self._optimiser = loss_gradient, optimiser

    @property
    def weights(self) -> Weights:
        return self._loss_gradient.weights

    @property
    def moments(self) -> Moments:
        return Moments(self._optimiser.first, self._optimiser.second, self._optimiser.steps)

    def learn(self, minibatches: Minibatches, loss_of: LossOf[L]) -> Sequence[OptimiserStep[L]]:
        steps = list[OptimiserStep[L]]()
        for part in minibatches:
            loss, gradient = self._loss_gradient.of(part, loss_of)
            steps.append(OptimiserStep(loss, self._step(gradient), part.rows))
        return steps

    def along(self, trace: Any, grad_output: Array) -> float:
        return self._step(self._loss_gradient.at(trace, grad_output))

    def apply(self, gradient: Array) -> float:
        return self._step(np.array(gradient, self.weights.dtype))

    def _step(self, gradient: Array) -> float:
        return self._optimiser.step(gradient)


class Engine(Protocol):
    """An engine computes networks. A network is the tensors ``<prefix>/...``. Raises `KeyError` if no tensor has the
    prefix. The `arithmetic` computes operations between networks."""

    arithmetic: Arithmetic = NUMPY

    def perceptron(self, network: Network, parameters: Array) -> Perceptron:
        """The network with these flat parameters."""
        return recurrent.FlatPerceptron(network, parameters)

    def optimiser(self, parameters: Array, settings: OptimiserSettings, moments: Moments | None = None) -> Optimiser:
        """An optimiser of the flat `parameters`, with new moments by default."""
        first, second, steps = moments or Moments(np.zeros_like(parameters), np.zeros_like(parameters), 0)
        return Adam(parameters, np.array(first), np.array(second), steps, *settings)

    def initial_tensors(self, shape: NetworkShape, rng: np.random.Generator, acts: bool) -> dict[str, Array]:
        """A new network of a factory, by the names of its tensors. With its graph for actors if it `acts`.

        Raises `BadRequest` for a factory that cannot make it.
        """

    def initial_parameters(self, network: Network, rng: np.random.Generator, output_gain: float) -> Array:
        """The flat vector of a new perceptron or GRU, see `recurrent.initialise`."""
        return recurrent.initialise(network, rng, output_gain)

    def weights(self, tensors: Tensors, prefix: str) -> Weights:
        """The network, to compute outputs."""

    def loss_gradient(self, tensors: Tensors, prefix: str) -> LossGradient:
        """The gradient of losses at a copy of the network."""

    def descent(
        self, tensors: Tensors, prefix: str, settings: OptimiserSettings, moments: Moments | None = None
    ) -> Descent:
        """A copy of the network in training, from new moments if there are none."""


class EngineConfig(Protocol):
    """The settings that choose an engine."""

    @property
    def engine(self) -> str: ...

    @property
    def device(self) -> str: ...

    @property
    def network(self) -> str: ...


def engine_of(config: EngineConfig) -> Engine:
    """The engine that the configuration names. Raises `MissingExtra` if its library is not installed."""
    return _engine(config.engine, config.device, config.network)


def weights_of(context: Context[EngineConfig], prefix: str) -> Weights:
    """A network among the context's tensors. Raises `KeyError` if there is none."""
    return engine_of(context.config).weights(context.tensors, prefix)


@cache
def _engine(name: str, device: str, network: str) -> Engine:
    try:
        return cast(Engine, importlib.import_module(MODULES[name]).engine(device, network))
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"algorithm.engine={name} needs the package {error.name!r}: pip install 'marless[learner]'"
        ) from error
