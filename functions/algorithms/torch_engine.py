"""The engine of torch: gradients by automatic differentiation. See `functions.algorithms.engine`.

One thread, deterministic kernels and full single precision, so that a machine type gives the same bytes wherever a
stage runs. These are settings of the whole process.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import deterministic

from functions.algorithms.engine import Descent, Engine, L, Loss, LossesOf, LossOf, Moments, OptimiserSettings
from functions.algorithms.minibatches import Minibatch
from functions.algorithms.stage import Tensors
from functions.contract import BadRequest
from functions.nn import recurrent, torch_layers, torch_modules
from functions.nn.adam import BETA_FIRST, BETA_SECOND
from functions.nn.gru import Flags
from functions.nn.layers import Array
from functions.nn.networks import Trace, Weights
from functions.nn.shape import CLIPPED, GRAPH, PARAMETERS, SHAPE, NetworkShape, tensor_names

LOG_STD = "log_std"


@dataclass(frozen=True)
class TorchTrace(Trace):
    """A forward pass; `graph` are the outputs with the graph behind them."""

    graph: Tensor
    states: tuple[Tensor, Tensor] | None

    @cached_property
    def outputs(self) -> Array:
        return _array(self.graph)

    @property
    def before(self) -> Array:
        return _array(self._states[0])

    @property
    def hidden(self) -> Array:
        return _array(self._states[1])

    @property
    def _states(self) -> tuple[Tensor, Tensor]:
        if self.states is None:
            raise ValueError("a network without a GRU has no hidden state")
        return self.states


class TorchWeights(Weights):
    """A network's parameters as views into the flat vector `flat` ``[parameters]``, which they follow when it changes.

    `log_std` is a parameter on which outputs do not depend.
    """

    hidden_size = 0

    def __init__(self, parameters: Mapping[str, Array], buffers: Mapping[str, Array], device: torch.device) -> None:
        self.flat = torch.tensor(np.concatenate([array.ravel() for array in parameters.values()]), device=device)
        self.shapes = {name: array.shape for name, array in parameters.items()}
        self.parameters = {name: view.detach().requires_grad_() for name, view in self.views(self.flat).items()}
        self._fixed = dict(buffers)

    @property
    def log_std(self) -> Array | None:
        return _array(self.parameters[LOG_STD]) if LOG_STD in self.parameters else None

    @property
    def clips_actions(self) -> bool:
        return CLIPPED in self._fixed

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(str(self.flat.dtype).removeprefix("torch."))

    def to_tensors(self) -> dict[str, Array]:
        return {**{name: _array(tensor) for name, tensor in self.parameters.items()}, **self._fixed}

    def forward(
        self, inputs: Array, starts: Flags | None = None, first: Array | None = None, burn_in: int = 0
    ) -> TorchTrace:
        return self.trace(self.tensor(inputs), starts, first, burn_in)

    def input_gradient(self, inputs: Array, grad_output: Array, first: Array | None = None) -> Array:
        values = self.tensor(inputs).requires_grad_()
        (gradient,) = torch.autograd.grad(self.trace(values, None, first, 0).graph, values, self.tensor(grad_output))
        return _array(gradient)

    def trace(self, inputs: Tensor, starts: Flags | None, first: Array | None, burn_in: int) -> TorchTrace:
        """A forward pass."""
        raise NotImplementedError

    def tensor(self, array: Array) -> Tensor:
        """A copy of the array, in the precision and on the device of the weights."""
        return torch.tensor(array, dtype=self.flat.dtype, device=self.flat.device)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Views with the shapes of the parameters into a flat vector."""
        parts = torch.split(flat, [int(np.prod(shape)) for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}


class LayerWeights(TorchWeights):
    """A perceptron, or one with a GRU."""

    def __init__(self, tensors: Tensors, prefix: str, device: torch.device) -> None:
        weights = recurrent.weights_of(tensors, prefix)
        arrays = weights.to_tensors()
        marks = {name: arrays.pop(name) for name in weights.marks}
        super().__init__(arrays, marks, device)
        self.hidden_size = weights.hidden_size
        names = zip(weights.kinds, tensor_names(weights.kinds), strict=True)
        self._layers = [(kind, [self.parameters[name] for name in of_layer]) for kind, of_layer in names]

    def trace(self, inputs: Tensor, starts: Flags | None, first: Array | None, burn_in: int) -> TorchTrace:
        begins = None if starts is None else torch.tensor(starts, device=self.flat.device)
        state = None if first is None else self.tensor(first)
        return TorchTrace(*torch_layers.forward(self._layers, inputs, begins, state, burn_in))


class ModuleWeights(TorchWeights):
    """A module of a factory, see `functions.nn.shape`."""

    def __init__(self, tensors: Tensors, prefix: str, shape: NetworkShape, device: torch.device) -> None:
        whole = {name: array for name, array in tensors.items() if name.startswith(f"{prefix}/")}
        arrays = {name.removeprefix(f"{prefix}/"): array for name, array in whole.items()}
        self._shape = shape
        parameters = {name: arrays[name] for name in sorted(arrays) if name.startswith(PARAMETERS) or name == LOG_STD}
        super().__init__(parameters, {name: arrays[name] for name in arrays.keys() - parameters.keys()}, device)
        self._module = torch_modules.stateless(self._shape).to(device)

    def trace(self, inputs: Tensor, starts: Flags | None, first: Array | None, burn_in: int) -> TorchTrace:
        shape, rows = self._shape, inputs.reshape(-1, inputs.shape[-1])
        # Modules of users may not take a batch without rows: `x.view(x.shape[0], -1)` fails.
        batch = rows if len(rows) else rows.new_zeros(1, rows.shape[1])
        parts = batch[:, : shape.width].reshape(-1, *shape.observation), batch[:, shape.width :]
        parameters = {
            name.removeprefix(PARAMETERS): tensor for name, tensor in self.parameters.items() if name != LOG_STD
        }
        outputs = torch.func.functional_call(self._module, parameters, parts)
        if not isinstance(outputs, Tensor) or outputs.shape != (len(batch), shape.outputs):
            result = list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise BadRequest(
                f"algorithm.network={shape.factory} gives {result} for {len(batch)} rows, and must give"
                f" {[len(batch), shape.outputs]}"
            )
        return TorchTrace(outputs[: len(rows)].reshape(*inputs.shape[:-1], shape.outputs), None)


class TorchLossGradient:
    """The gradient of a loss by automatic differentiation."""

    def __init__(self, weights: TorchWeights) -> None:
        self.weights, self.gradient = weights, torch.zeros_like(weights.flat)
        self._views = weights.views(self.gradient)

    def of(self, part: Minibatch, loss_of: LossOf[L]) -> tuple[L, Array]:
        """The loss of a minibatch and its gradient ``[parameters]``; the next call overwrites the gradient."""
        return self.write(part, loss_of), _array(self.gradient)

    def each(self, part: Minibatch, losses_of: LossesOf[L]) -> Iterator[tuple[L, Array]]:
        """Several losses of a minibatch after one forward pass, each with its gradient ``[parameters]``, which the next
        overwrites."""
        trace = self.weights.forward(part.inputs, part.starts, part.first)
        for loss in losses_of(part.select(trace.outputs), self.weights.log_std, part.rows):
            self._write(loss, part, trace, goes_on=True)
            yield loss, _array(self.gradient)

    def write(self, part: Minibatch, loss_of: LossOf[L]) -> L:
        """The loss of a minibatch; writes its gradient."""
        trace = self.weights.forward(part.inputs, part.starts, part.first)
        loss = loss_of(part.select(trace.outputs), self.weights.log_std, part.rows)
        self._write(loss, part, trace)
        return loss

    def _write(self, loss: Loss, part: Minibatch, trace: TorchTrace, goes_on: bool = False) -> None:
        self.write_along(trace, part.scatter(loss.grad_output), goes_on)
        if loss.grad_log_std is not None:
            self._views[LOG_STD].copy_(self.weights.tensor(loss.grad_log_std))

    def write_along(self, trace: TorchTrace, grad_output: Array, goes_on: bool = False) -> None:
        """Writes the gradient from d loss / d outputs; `goes_on`: that of another loss of the same pass follows."""
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
        return Moments(_array(state["exp_avg"]), _array(state["exp_avg_sq"]), int(state["step"]))

    def to_tensors(self) -> dict[str, Array]:
        return self._weights.to_tensors()

    def step(self, part: Minibatch, loss_of: LossOf[L]) -> tuple[L, float]:
        return self._loss_gradient.write(part, loss_of), self._descend()

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
        return float(norm)


@dataclass(frozen=True)
class TorchEngine(Engine):
    """Networks of any factory on a device."""

    device: torch.device
    network: str

    def weights(self, tensors: Tensors, prefix: str) -> TorchWeights:
        """The network, to compute outputs; raises `BadRequest` for a network of another factory than the run's: no
        module is imported that only stored bytes name."""
        if f"{prefix}/{SHAPE}" not in tensors:
            return LayerWeights(tensors, prefix, self.device)
        shape = NetworkShape.decode(tensors[f"{prefix}/{SHAPE}"])
        if shape.factory != self.network:
            raise BadRequest(f"{prefix} is a network of {shape.factory}, and algorithm.network is {self.network}")
        return ModuleWeights(tensors, prefix, shape, self.device)

    def initial_tensors(self, shape: NetworkShape, rng: np.random.Generator, acts: bool) -> dict[str, Array]:
        module = torch_modules.build(shape, int(rng.integers(2**63)))
        tensors: dict[str, Array] = {PARAMETERS + name: _array(tensor) for name, tensor in module.named_parameters()}
        tensors[SHAPE] = shape.encode()
        if acts:
            from functions.nn.onnx_export import export

            tensors[GRAPH] = np.frombuffer(export(shape), np.uint8)
        return tensors

    def loss_gradient(self, tensors: Tensors, prefix: str) -> TorchLossGradient:
        return TorchLossGradient(self.weights(tensors, prefix))

    def descent(
        self, tensors: Tensors, prefix: str, settings: OptimiserSettings, moments: Moments | None = None
    ) -> TorchDescent:
        return TorchDescent(self.weights(tensors, prefix), settings, moments)


def engine(device: str, network: str) -> Engine:
    """The engine on this device for networks of this factory; raises `BadRequest` if there is no such device."""
    if device == "cuda":
        # cuBLAS repeats a product bit by bit only with this (docs of torch.use_deterministic_algorithms).
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        if not torch.cuda.is_available():
            raise BadRequest("algorithm.device=cuda: torch finds no GPU here; set algorithm.device=cpu")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    # New memory need not be filled, which takes a tenth of a step: nothing here reads it before it is written.
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return TorchEngine(torch.device(device), network)


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array
