"""The engine of torch: gradients by automatic differentiation. See `marless.functions.algorithms.engine`.

One thread, deterministic kernels and full single precision, so that a stage gives the same bytes on all machines of a
type. These are settings of the whole process.
"""

import itertools
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch.utils import deterministic

from marless.functions.algorithms.engine import (
    Descent,
    Engine,
    L,
    Loss,
    LossesOf,
    LossOf,
    Moments,
    OptimiserSettings,
    OptimiserStep,
)
from marless.functions.algorithms.minibatches import Minibatch, Minibatches, PassOrder, Places, Samples
from marless.functions.algorithms.stage import Tensors
from marless.functions.errors import BadRequest
from marless.functions.kernel_variables import CUBLAS_WORKSPACE, CUBLAS_WORKSPACE_DEFAULT
from marless.functions.nn import torch_modules
from marless.functions.nn.adam import BETA_FIRST, BETA_SECOND, finite_norm
from marless.functions.nn.layers import Array
from marless.functions.nn.shape import GRAPH, PARAMETERS, SHAPE, NetworkShape
from marless.functions.nn.torch_weights import (
    LOG_STD,
    InputTensors,
    LayerWeights,
    ModuleWeights,
    TorchTrace,
    TorchWeights,
    array_of,
)


class TorchMinibatch(NamedTuple):
    """A minibatch with its inputs on a device."""

    places: Places
    inputs: InputTensors


class ResidentSamples:
    """Samples with inputs that are copied to the device once. Each pass copies only indices."""

    def __init__(self, samples: Samples, weights: TorchWeights) -> None:
        self._samples, self._device = samples, weights.flat.device
        self._inputs = weights.tensors(*samples.network_inputs())

    def parts(self, order: PassOrder) -> Iterator[TorchMinibatch]:
        """The minibatches of a pass, each picked when it is asked for."""
        parts = [order.pieces[start:end] for start, end in itertools.pairwise(order.bounds)]
        columns = list(map(self._samples.columns, parts))
        indices = torch.tensor(np.concatenate([order.pieces[:0], *columns]), device=self._device)
        for pieces, part in zip(parts, torch.split(indices, list(map(len, columns))), strict=True):
            yield TorchMinibatch(self._samples.places(pieces), self._inputs.of(part))


class TorchLossGradient:
    """The gradient of a loss by automatic differentiation."""

    def __init__(self, weights: TorchWeights) -> None:
        self.weights, self.gradient = weights, torch.zeros_like(weights.flat)
        self._views = weights.views(self.gradient)

    def assign(self, parameters: Array) -> None:
        """Sets the network's parameters ``[parameters]``."""
        self.weights.flat.copy_(self.weights.tensor(parameters))

    def of(self, part: Minibatch, loss_of: LossOf[L]) -> tuple[L, Array]:
        """The loss of a minibatch and its gradient ``[parameters]``. The next call overwrites the gradient."""
        return self.write(self._on_device(part), loss_of), array_of(self.gradient)

    def each(self, part: Minibatch, losses_of: LossesOf[L]) -> Iterator[tuple[L, Array]]:
        """Several losses of a minibatch after one forward pass, each with its gradient ``[parameters]``, which the next
        overwrites."""
        trace = self.weights.trace(*self._on_device(part).inputs, burn_in=0)
        for loss in losses_of(part.select(trace.outputs), self.weights.log_std, part.rows):
            self._write(loss, part.places, trace, goes_on=True)
            yield loss, array_of(self.gradient)

    def at(self, trace: TorchTrace, grad_output: Array) -> Array:
        """The gradient from d loss / d outputs of a forward pass. The next call overwrites it."""
        self.write_along(trace, grad_output)
        return array_of(self.gradient)

    def write(self, part: TorchMinibatch, loss_of: LossOf[L]) -> L:
        """The loss of a minibatch. Writes its gradient."""
        trace = self.weights.trace(*part.inputs, burn_in=0)
        loss = loss_of(part.places.select(trace.outputs), self.weights.log_std, part.places.rows)
        self._write(loss, part.places, trace)
        return loss

    def _on_device(self, part: Minibatch) -> TorchMinibatch:
        return TorchMinibatch(part.places, self.weights.tensors(part.inputs, part.starts, part.first))

    def _write(self, loss: Loss, places: Places, trace: TorchTrace, goes_on: bool = False) -> None:
        self.write_along(trace, places.scatter(loss.grad_output), goes_on)
        if loss.grad_log_std is not None:
            self._views[LOG_STD].copy_(self.weights.tensor(loss.grad_log_std))

    def write_along(self, trace: TorchTrace, grad_output: Array, goes_on: bool = False) -> None:
        """Writes the gradient from d loss / d outputs. With `goes_on`, another loss of the same pass follows."""
        parameters = {name: tensor for name, tensor in self.weights.parameters.items() if name != LOG_STD}
        gradients = torch.autograd.grad(
            trace.graph,
            list(parameters.values()),
            self.weights.tensor(grad_output),
            retain_graph=goes_on,
            materialize_grads=True,
        )
        for name, gradient in zip(parameters, gradients, strict=True):
            self._views[name].copy_(gradient)


class TorchDescent(Descent):
    """A network in training, by torch's Adam."""

    def __init__(self, weights: TorchWeights, settings: OptimiserSettings, moments: Moments | None) -> None:
        self._weights, self._most = weights, settings.max_grad_norm
        self._loss_gradient, flat = TorchLossGradient(weights), weights.flat
        self._adam = torch.optim.Adam([flat], settings.lr, (BETA_FIRST, BETA_SECOND), settings.epsilon)
        first, second, steps = moments or Moments(np.zeros(flat.shape), np.zeros(flat.shape), 0)
        state = {"exp_avg": weights.tensor(first), "exp_avg_sq": weights.tensor(second)}
        self._adam.state[flat] = {"step": torch.tensor(float(steps)), **state}

    @property
    def weights(self) -> TorchWeights:
        return self._weights

    @property
    def moments(self) -> Moments:
        state = self._adam.state[self._weights.flat]
        return Moments(array_of(state["exp_avg"]), array_of(state["exp_avg_sq"]), int(state["step"]))

    def learn(self, minibatches: Minibatches, loss_of: LossOf[L]) -> Sequence[OptimiserStep[L]]:
        samples, steps = ResidentSamples(minibatches.samples, self._weights), list[OptimiserStep[L]]()
        for part in itertools.chain.from_iterable(map(samples.parts, minibatches.orders)):
            loss = self._loss_gradient.write(part, loss_of)
            steps.append(OptimiserStep(loss, self._descend(), part.places.rows))
        return steps

    def along(self, trace: TorchTrace, grad_output: Array) -> float:
        self._loss_gradient.write_along(trace, grad_output)
        return self._descend()

    def apply(self, gradient: Array) -> float:
        self._loss_gradient.gradient.copy_(self._weights.tensor(gradient))
        return self._descend()

    def _descend(self) -> float:
        flat = self._weights.flat
        flat.grad = self._loss_gradient.gradient
        norm = torch.nn.utils.clip_grad_norm_([flat], self._most)
        self._adam.step()
        return finite_norm(float(norm))


@dataclass(frozen=True)
class TorchEngine(Engine):
    """Networks of any factory on a device."""

    device: torch.device
    network: str

    def weights(self, tensors: Tensors, prefix: str) -> TorchWeights:
        """The network, to compute outputs. Raises `BadRequest` for a network of another factory than the run's, so
        stored bytes never choose a module to import."""
        if f"{prefix}/{SHAPE}" not in tensors:
            return LayerWeights(tensors, prefix, self.device)
        shape = NetworkShape.decode(tensors[f"{prefix}/{SHAPE}"])
        if shape.factory != self.network:
            raise BadRequest(f"{prefix} is a network of {shape.factory}, and algorithm.network is {self.network}")
        return ModuleWeights(tensors, prefix, shape, self.device)

    def initial_tensors(self, shape: NetworkShape, rng: np.random.Generator, acts: bool) -> dict[str, Array]:
        """The parameters of a new module, its shape, and where it `acts` its graph in ONNX. Errors of the factory pass
        through."""
        module = torch_modules.build(shape, int(rng.integers(2**63)))
        tensors: dict[str, Array] = {PARAMETERS + name: array_of(tensor) for name, tensor in module.named_parameters()}
        tensors[SHAPE] = shape.encode()
        if acts:
            from marless.functions.nn.onnx_export import export

            tensors[GRAPH] = np.frombuffer(export(shape), np.uint8)
        return tensors

    def loss_gradient(self, tensors: Tensors, prefix: str) -> TorchLossGradient:
        return TorchLossGradient(self.weights(tensors, prefix))

    def descent(
        self, tensors: Tensors, prefix: str, settings: OptimiserSettings, moments: Moments | None = None
    ) -> TorchDescent:
        return TorchDescent(self.weights(tensors, prefix), settings, moments)


def engine(device: str, network: str) -> Engine:
    """The engine on this device for networks of this factory. Raises `BadRequest` if there is no such device."""
    if device == "cuda":
        os.environ.setdefault(CUBLAS_WORKSPACE, CUBLAS_WORKSPACE_DEFAULT)
        if not torch.cuda.is_available():
            raise BadRequest("algorithm.device=cuda: torch finds no GPU here; set algorithm.device=cpu")
        _begin_gradients(torch.device(device))
    compute_alike()
    return TorchEngine(torch.device(device), network)


def compute_alike() -> None:
    """One thread, deterministic kernels, full single precision, for the whole process."""
    torch.set_num_threads(1)
    # As `torch.use_deterministic_algorithms`, which imports the compiler first: more than a second of the processor.
    torch.set_deterministic_debug_mode("error")
    # cuDNN rounds the factors of convolutions to TF32 by default, with 10 bits of mantissa.
    torch.backends.cudnn.allow_tf32 = False
    # Filling new memory takes a tenth of a step, and nothing here reads memory before it is written.
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _begin_gradients(device: torch.device) -> None:
    """Lets the thread that computes gradients on the device begin: the first product there warns that it sets up its
    context."""
    number = torch.ones(1, 1, device=device, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.autograd.grad((number @ number).sum(), [number])
