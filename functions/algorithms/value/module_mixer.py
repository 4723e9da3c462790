"""Mixing networks that a user's factory makes: torch modules, trained as the mixing networks in numpy are."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marless.functions.algorithms.stage import Tensors
from marless.functions.errors import BadRequest
from marless.functions.nn import torch_modules
from marless.functions.nn.layers import Array
from marless.functions.nn.shape import PARAMETERS, SHAPE, MixerShape

# The rows that a new module is tried with.
_TRIED = 2


class ModuleTrace(NamedTuple):
    """The joint values ``[B]`` with their graph, and its inputs: the flat vector, the utilities ``[B, n]``, and the
    flags of the utilities that count."""

    joint: Tensor
    flat: Tensor
    utilities: Tensor
    alive: NDArray[np.bool_]


class ModuleMixer:
    """A module of this shape. Its parameters, with these shapes by name, are a flat vector in this order."""

    def __init__(self, shape: MixerShape, parameters: dict[str, tuple[int, ...]], device: torch.device) -> None:
        self._shape, self._parameters, self._device = shape, parameters, device
        self._module = torch_modules.stateless(shape).to(device)

    def to_tensors(self, flat: Array, prefix: str) -> dict[str, Array]:
        """The parameters ``<prefix>/net/<name>``, views of `flat`, and the shape."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self._parameters.values()], dtype=np.int64)
        parts = zip(self._parameters.items(), np.split(flat, ends[:-1]) if len(ends) else (), strict=True)
        tensors = {f"{prefix}/{PARAMETERS}{name}": part.reshape(shape) for (name, shape), part in parts}
        return {**tensors, f"{prefix}/{SHAPE}": self._shape.encode()}

    def forward(
        self, flat: Array, state: Array, utilities: Array, alive: NDArray[np.bool_]
    ) -> tuple[Array, ModuleTrace]:
        """See `joint_values.MixingNetwork`. Raises `BadRequest` for outputs of another shape, or infinite ones."""
        vector = torch.tensor(flat, device=self._device, requires_grad=True)
        living = self._tensor(np.where(alive, utilities, 0), vector).requires_grad_()
        sizes = [int(np.prod(shape)) for shape in self._parameters.values()]
        parts = zip(self._parameters.items(), torch.split(vector, sizes) if sizes else (), strict=True)
        inputs = self._tensor(state, vector), torch.tensor(alive, device=self._device)
        views = {name: part.view(shape) for (name, shape), part in parts}
        joint = torch.func.functional_call(self._module, views, (living, *inputs))
        self._check(joint, len(state))
        return joint.detach().cpu().numpy(), ModuleTrace(joint, vector, living, alive)

    def backward(self, flat: Array, trace: ModuleTrace, grad_output: Array) -> tuple[Array, Array]:
        """See `joint_values.MixingNetwork`. Dead agents get 0."""
        above = self._tensor(grad_output, trace.joint)
        gradients = torch.autograd.grad(trace.joint, (trace.flat, trace.utilities), above, materialize_grads=True)
        gradient, by_utilities = (part.cpu().numpy() for part in gradients)
        return gradient, by_utilities * trace.alive

    def _tensor(self, array: Array, like: Tensor) -> Tensor:
        return torch.tensor(array, dtype=like.dtype, device=self._device)

    def _check(self, joint: object, rows: int) -> None:
        if not isinstance(joint, Tensor) or joint.shape != (rows,):
            result = list(joint.shape) if isinstance(joint, Tensor) else type(joint).__name__
            raise BadRequest(f"{self._shape.setting} gives {result} for {rows} rows, and must give {[rows]}")
        if not joint.requires_grad:
            raise BadRequest(f"{self._shape.setting} gives joint values that depend on no utility by torch's autograd")
        if not torch.isfinite(joint).all():
            raise BadRequest(f"{self._shape.setting} gives joint values that are not finite")


def initial_tensors(shape: MixerShape, device: str, prefix: str, rng: np.random.Generator) -> dict[str, Array]:
    """A new mixing network by the names of its tensors. Raises `BadRequest` for an unsuitable factory or module."""
    module = torch_modules.build(shape, int(rng.integers(2**63)))
    parameters = {name: parameter.detach().numpy() for name, parameter in sorted(module.named_parameters())}
    mixer = ModuleMixer(shape, {name: array.shape for name, array in parameters.items()}, torch.device(device))
    flat = _flat(list(parameters.values()))
    probe = np.ones((_TRIED, shape.state), flat.dtype), np.ones((_TRIED, shape.agents), flat.dtype)
    try:
        mixer.forward(flat, *probe, np.ones((_TRIED, shape.agents), np.bool_))
    except (BadRequest, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise BadRequest(f"{shape.setting}: its forward raised {type(error).__name__}: {reason}") from error
    return mixer.to_tensors(flat, prefix)


def load(tensors: Tensors, prefix: str, factory: str, device: str) -> tuple[ModuleMixer, Array]:
    """A stored mixing network and its flat vector (a copy). Raises `BadRequest` for a network of another factory, so
    stored bytes never choose a module to import."""
    if f"{prefix}/{SHAPE}" not in tensors:
        raise BadRequest(f"{prefix} is qmix's own mixing network, and algorithm.mixer is {factory}")
    shape = MixerShape.decode(tensors[f"{prefix}/{SHAPE}"])
    if shape.factory != factory:
        raise BadRequest(f"{prefix} is a mixing network of {shape.factory}, and algorithm.mixer is {factory}")
    start = f"{prefix}/{PARAMETERS}"
    parameters = {name.removeprefix(start): tensors[name] for name in sorted(tensors) if name.startswith(start)}
    shapes = {name: array.shape for name, array in parameters.items()}
    return ModuleMixer(shape, shapes, torch.device(device)), _flat(list(parameters.values()))


def _flat(arrays: list[Array]) -> Array:
    return np.concatenate([array.ravel() for array in arrays]) if arrays else np.zeros(0, np.float32)
