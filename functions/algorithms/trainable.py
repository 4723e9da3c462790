"""Training of a network: an engine's descent, and its optimiser's moments by name."""

from collections.abc import Iterable, Sequence
from typing import Protocol, Self

import numpy as np

from marless.functions.algorithms.adapters.descent import BASE, AdaptedDescent
from marless.functions.algorithms.engine import (
    Descent,
    EngineConfig,
    L,
    LossOf,
    Moments,
    OptimiserSettings,
    OptimiserStep,
    engine_of,
)
from marless.functions.algorithms.minibatches import Minibatches, Samples, shuffled_minibatches
from marless.functions.algorithms.specification import adapter_of
from marless.functions.algorithms.stage import Context, within
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Trace, Weights
from marless.functions.randomness import generator
from marless.functions.setting_limits import FEWEST_MINIBATCHES


class OptimiserConfig(EngineConfig, Protocol):
    """The settings of Adam. `lr` is None only before the configuration is resolved."""

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
    def num_minibatches(self) -> int | None: ...


class Trainable:
    """A network and its optimiser."""

    def __init__(self, descent: Descent) -> None:
        self._descent = descent

    @classmethod
    def load(cls, context: Context[OptimiserConfig], part: str, name: str, lr: float | None = None) -> Self:
        """The network `<part>/<name>`, or its difference to a frozen one, and its moments, copied out of the context's
        tensors.

        `lr` replaces the configuration's step size. Raises `ValueError` when there is neither.
        """
        config, prefix = context.config, f"{part}_optimiser/{name}"
        lr = config.lr if lr is None else lr
        if lr is None:
            raise ValueError("the configuration has no step size; resolve it first")
        first, second, steps = (context.tensors[f"{prefix}/{moment}"] for moment in Moments._fields)
        settings = OptimiserSettings(lr, config.adam_eps, config.max_grad_norm)
        moments = Moments(first, second, int(steps[0]))
        engine, network = engine_of(config), f"{part}/{name}"
        if difference := within(context.tensors, f"{adapter_of(part)}/{name}"):
            loss_gradient = engine.loss_gradient(context.tensors, network)
            frozen = within(context.tensors, f"{BASE}/{network}")
            return cls(AdaptedDescent(loss_gradient, frozen, difference, settings, moments))
        return cls(engine.descent(context.tensors, network, settings, moments))

    @property
    def weights(self) -> Weights:
        """The network's weights."""
        return self._descent.weights

    def descend(self, trace: Trace, grad_output: Array) -> float:
        """One step along d loss / d outputs of a forward pass with the current weights. Returns the gradient's norm."""
        return self._descent.along(trace, grad_output)

    def apply(self, gradient: Array) -> float:
        """One step along the gradient ``[parameters]`` of a loss. Returns its norm before clipping."""
        return self._descent.apply(gradient)

    def learn(self, minibatches: Minibatches, loss_of: LossOf[L]) -> Sequence[OptimiserStep[L]]:
        """One step per minibatch."""
        return self._descent.learn(minibatches, loss_of)

    def network(self, part: str, name: str) -> dict[str, Array]:
        """The network by name."""
        return {f"{part}/{name}/{tensor}": array for tensor, array in self._descent.to_tensors().items()}

    def tensors(self, part: str, name: str) -> dict[str, Array]:
        """The network, its difference to a frozen one and its moments, by name."""
        prefix, (first, second, steps) = f"{part}_optimiser/{name}", self._descent.moments
        return {
            **self.network(part, name),
            **{f"{adapter_of(part)}/{name}/{key}": array for key, array in self._descent.difference.items()},
            f"{prefix}/first": first,
            f"{prefix}/second": second,
            f"{prefix}/steps": np.array([steps], np.int64),
        }


def minibatches(pieces: Samples, context: Context[EpochConfig], stage: str, group: int) -> Minibatches:
    """The minibatches of all epochs, shuffled at the random address (seed, round, stage, group)."""
    rng = generator(context.seed, context.round, stage, group)
    return shuffled_minibatches(
        pieces, rng, context.config.epochs, context.config.num_minibatches or FEWEST_MINIBATCHES
    )


def last_epoch(steps: Sequence[OptimiserStep[L]], epochs: int) -> Sequence[OptimiserStep[L]]:
    """The steps of the last epoch."""
    return steps[len(steps) - len(steps) // epochs :]


def mean_of_steps(values: Iterable[float]) -> float:
    """The mean, or 0 without steps, because the whole group was dead."""
    return float(np.mean(values)) if (values := list(values)) else 0.0


def outputs(weights: Weights, pieces: Samples) -> Array:
    """The network's outputs for all rows ``[B, out]``."""
    part = pieces.part(np.arange(len(pieces)))
    selection = part.select(weights.forward(part.inputs, part.starts, part.first).outputs)
    result = np.empty_like(selection)
    result[part.rows] = selection
    return result


def moments(prefix: str, size: int) -> dict[str, Array]:
    """The moments of an optimiser before its first step, by name."""
    return {
        f"{prefix}/first": np.zeros(size, np.float32),
        f"{prefix}/second": np.zeros(size, np.float32),
        f"{prefix}/steps": np.zeros(1, np.int64),
    }
