"""Networks that torch computes: their parameters on a device, and a forward pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marless.functions.errors import BadRequest
from marless.functions.nn import recurrent, torch_layers, torch_modules
from marless.functions.nn.entities.attention import ENTITIES
from marless.functions.nn.gru import Flags
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Trace, Weights
from marless.functions.nn.shape import CLIPPED, PARAMETERS, NetworkShape, tensor_names

LOG_STD = "log_std"


@dataclass(frozen=True)
class TorchTrace(Trace):
    """A forward pass. `graph` are the outputs with their graph."""

    graph: Tensor
    states: tuple[Tensor, Tensor] | None

    @cached_property
    def outputs(self) -> Array:
        return array_of(self.graph)

    @property
    def before(self) -> Array:
        return array_of(self._states[0])

    @property
    def hidden(self) -> Array:
        return array_of(self._states[1])

    @property
    def _states(self) -> tuple[Tensor, Tensor]:
        if self.states is None:
            raise ValueError("a network without a GRU has no hidden state")
        return self.states


class TorchWeights(Weights):
    """A network's parameters as views into the flat vector `flat` ``[parameters]``, which they follow when it changes.

    Outputs do not depend on the parameter `log_std`.
    """

    hidden_size = 0

    def __init__(self, parameters: Mapping[str, Array], buffers: Mapping[str, Array], device: torch.device) -> None:
        self.flat = torch.tensor(np.concatenate([array.ravel() for array in parameters.values()]), device=device)
        self.shapes = {name: array.shape for name, array in parameters.items()}
        self.parameters = {name: view.detach().requires_grad_() for name, view in self.views(self.flat).items()}
        self._fixed = dict(buffers)

    @property
    def log_std(self) -> Array | None:
        return array_of(self.parameters[LOG_STD]) if LOG_STD in self.parameters else None

    @property
    def clips_actions(self) -> bool:
        return CLIPPED in self._fixed

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(str(self.flat.dtype).removeprefix("torch."))

    def to_tensors(self) -> dict[str, Array]:
        return {**{name: array_of(tensor) for name, tensor in self.parameters.items()}, **self._fixed}

    def forward(
        self, inputs: Array, starts: Flags | None = None, first: Array | None = None, burn_in: int = 0
    ) -> TorchTrace:
        return self.trace(*self.tensors(inputs, starts, first), burn_in)

    def input_gradient(self, inputs: Array, grad_output: Array, first: Array | None = None) -> Array:
        values, _, state = self.tensors(inputs, None, first)
        values.requires_grad_()
        (gradient,) = torch.autograd.grad(self.trace(values, None, state, 0).graph, values, self.tensor(grad_output))
        return array_of(gradient)

    def trace(self, inputs: Tensor, starts: Tensor | None, first: Tensor | None, burn_in: int) -> TorchTrace:
        """A forward pass."""
        raise NotImplementedError

    def tensors(self, inputs: Array, starts: Flags | None, first: Array | None) -> "InputTensors":
        """Copies on the device of the weights, numbers in their precision."""
        return InputTensors(
            self.tensor(inputs),
            None if starts is None else torch.tensor(starts, device=self.flat.device),
            None if first is None else self.tensor(first),
        )

    def tensor(self, array: Array) -> Tensor:
        """A copy of the array, in the precision and on the device of the weights."""
        return torch.tensor(array, dtype=self.flat.dtype, device=self.flat.device)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Views with the shapes of the parameters into a flat vector."""
        parts = torch.split(flat, [int(np.prod(shape)) for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}


class LayerWeights(TorchWeights):
    """A perceptron, or one with a GRU."""

    def __init__(self, tensors: Mapping[str, Array], prefix: str, device: torch.device) -> None:
        weights = recurrent.weights_of(tensors, prefix)
        arrays = weights.to_tensors()
        marks = {name: arrays.pop(name) for name in (*weights.marks, ENTITIES) if name in arrays}
        super().__init__(arrays, marks, device)
        self.hidden_size = weights.hidden_size
        names = zip(weights.kinds, tensor_names(weights.kinds), strict=True)
        self._layers = [(kind, [self.parameters[name] for name in of_layer]) for kind, of_layer in names]

    def trace(self, inputs: Tensor, starts: Tensor | None, first: Tensor | None, burn_in: int) -> TorchTrace:
        return TorchTrace(*torch_layers.forward(self._layers, inputs, starts, first, burn_in))


class ModuleWeights(TorchWeights):
    """A module of a factory, see `marless.functions.nn.shape`."""

    def __init__(self, tensors: Mapping[str, Array], prefix: str, shape: NetworkShape, device: torch.device) -> None:
        whole = {name: array for name, array in tensors.items() if name.startswith(f"{prefix}/")}
        arrays = {name.removeprefix(f"{prefix}/"): array for name, array in whole.items()}
        self._shape = shape
        parameters = {name: arrays[name] for name in sorted(arrays) if name.startswith(PARAMETERS) or name == LOG_STD}
        super().__init__(parameters, {name: arrays[name] for name in arrays.keys() - parameters.keys()}, device)
        self._module = torch_modules.stateless(self._shape).to(device)

    def trace(self, inputs: Tensor, starts: Tensor | None, first: Tensor | None, burn_in: int) -> TorchTrace:
        """``[..., outputs]`` without hidden states. Raises `BadRequest` for a module that gives another shape."""
        shape, rows = self._shape, inputs.reshape(-1, inputs.shape[-1])
        # Modules of users may fail for an empty batch: `x.view(x.shape[0], -1)` does.
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


class InputTensors(NamedTuple):
    """The inputs of n pieces on a device: `inputs` ``[n, F]``, or sequences ``[L, n, F]`` with `starts` ``[L, n]`` and
    `first` ``[n, H]``."""

    inputs: Tensor
    starts: Tensor | None
    first: Tensor | None

    def of(self, pieces: Tensor) -> Self:
        """The inputs of the pieces with these indices, which are on the device."""
        return self._replace(
            inputs=self.inputs.index_select(-2, pieces),
            starts=None if self.starts is None else self.starts.index_select(1, pieces),
            first=None if self.first is None else self.first.index_select(0, pieces),
        )


def array_of(tensor: Tensor) -> NDArray[Any]:
    """The tensor's numbers in this process's memory, shared where it is there already."""
    return np.asarray(tensor.detach().cpu().numpy())
