"""A policy as a program of `torch.export`, which plain torch loads and runs without code of ours."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from coordinator.errors import UserError
from functions.contract import BadRequest
from functions.nn.layer_norm import EPSILON
from functions.nn.losses import ILLEGAL
from functions.nn.modules import build
from functions.nn.normaliser import MOST_DEVIATIONS
from marless.exports.agent_policy import (
    HIDDEN,
    LAST_ACTION,
    NEXT,
    AgentPolicy,
    Choices,
    FactoryNetwork,
    Gru,
    LayerNorm,
    Linear,
    Normalise,
    Numbers,
    Relu,
    Tanh,
)


class _Normalise(nn.Module):
    def __init__(self, layer: Normalise) -> None:
        super().__init__()
        self.mean, self.inverse = _constant(layer.mean), _constant(layer.inverse)

    def forward(self, values: Tensor) -> Tensor:
        return ((values - self.mean) * self.inverse).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)


class _Gru(nn.Module):
    def __init__(self, layer: Gru) -> None:
        super().__init__()
        self.x, self.h = _constant(layer.x.T), _constant(layer.h.T)
        self.bx, self.bh = _constant(layer.bx), _constant(layer.bh)

    def forward(self, values: Tensor, before: Tensor) -> Tensor:
        return torch.gru_cell(values, before, self.x, self.h, self.bx, self.bh)


class _Factory(nn.Module):
    def __init__(self, layer: FactoryNetwork) -> None:
        super().__init__()
        self.network, self.observation = build(layer.shape), layer.observation
        state = {name: torch.from_numpy(array.copy()) for name, array in layer.parameters.items()}
        self.network.load_state_dict(state)
        self.one_hot = _constant(layer.one_hot)

    def forward(self, values: Tensor) -> Tensor:
        width = torch.Size(self.observation).numel()
        # Not len(values), which would fix the number of rows.
        rest = torch.cat([values[:, width:], self.one_hot.expand(values.shape[0], -1)], dim=1)
        observations = values[:, :width].reshape(-1, *self.observation)
        return self.network(observations, rest)  # type: ignore[no-any-return]


class _Policy(nn.Module):
    """A dictionary of inputs ``[rows, width]`` to one of outputs."""

    def __init__(self, policy: AgentPolicy) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_LAYERS[type(layer)](layer) for layer in policy.layers)
        self.last_action, self.actions = policy.last_action, policy.actions

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The outputs by name, ``[rows, ...]`` each, as those of the ONNX graph."""
        values, after = inputs["observation"], {}
        if self.last_action:
            values = torch.cat([values, inputs[LAST_ACTION]], dim=1)
        for layer in self.layers:
            if isinstance(layer, _Gru):
                values = after[f"{NEXT}{HIDDEN}"] = layer(values, inputs[HIDDEN])
            else:
                values = layer(values)
        outputs, action, last_action = _HEADS[type(self.actions)](self.actions, values, inputs)
        if self.last_action:
            after[f"{NEXT}{LAST_ACTION}"] = last_action
        return {"outputs": outputs, "action": action, **after}


def torch_program(policy: AgentPolicy) -> bytes:
    """The program of a policy; takes any number of rows. Raises `UserError` for a factory's module that cannot be
    made here or be exported."""
    inputs = {
        name: torch.ones(3, width, dtype=torch.bool if name == "mask" else torch.float32)
        for name, width in policy.inputs.items()
    }
    rows = torch.export.Dim("rows", min=1)
    body = io.BytesIO()
    try:
        with torch.no_grad():
            shapes = ({name: {0: rows} for name in inputs},)
            torch.export.save(
                torch.export.export(_Policy(policy).eval().requires_grad_(False), (inputs,), dynamic_shapes=shapes),
                body,
            )
    except BadRequest as error:
        raise UserError(f"{error}; --to onnx needs no module") from error
    except Exception as error:
        line = " ".join(str(error).split())[:300]
        raise UserError(f"torch cannot export the network of {policy.name}: {line}; try --to onnx") from error
    return body.getvalue()


def _constant(array: Any) -> nn.Parameter:
    return nn.Parameter(_tensor(array), requires_grad=False)


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.array(array, order="C"))


def _linear(layer: Linear) -> nn.Module:
    linear = nn.Linear(*layer.weight.shape)
    linear.load_state_dict({"weight": _tensor(layer.weight.T), "bias": _tensor(layer.bias)})
    return linear


def _layer_norm(layer: LayerNorm) -> nn.Module:
    norm = nn.LayerNorm(len(layer.gain), EPSILON)
    norm.load_state_dict({"weight": _tensor(layer.gain), "bias": _tensor(layer.shift)})
    return norm


def _tanh(layer: Tanh) -> nn.Module:
    return nn.Tanh()


def _relu(layer: Relu) -> nn.Module:
    return nn.ReLU()


def _choices(actions: Choices, values: Tensor, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    outputs = torch.where(inputs["mask"], values, ILLEGAL)
    parts = torch.split(outputs, list(actions.counts), dim=1)
    indices = [part.argmax(dim=1) for part in parts]
    one_hots = [nn.functional.one_hot(one, count) for one, count in zip(indices, actions.counts, strict=True)]
    if actions.joined:
        action = _tensor(actions.table)[indices[0]]
    else:
        action = torch.stack(indices, dim=1) + torch.tensor(actions.first)
    return outputs, action.reshape(-1, *actions.shape), torch.cat(one_hots, dim=1).to(values.dtype)


def _numbers(actions: Numbers, values: Tensor, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    mean = values[:, : actions.width]
    low, high = torch.tensor(actions.low), torch.tensor(actions.high)
    unit_action = mean.clamp(-1, 1) if actions.clipped else torch.tanh(mean)
    share = 0.5 * (unit_action + 1)
    action = torch.clip((1 - share) * low + share * high, low, high).reshape(-1, *actions.shape)
    return values, action, unit_action * torch.tensor(actions.last_scale) + torch.tensor(actions.last_offset)


_LAYERS: dict[type, Callable[[Any], nn.Module]] = {
    Normalise: _Normalise,
    Linear: _linear,
    LayerNorm: _layer_norm,
    Tanh: _tanh,
    Relu: _relu,
    Gru: _Gru,
    FactoryNetwork: _Factory,
}
_HEADS: dict[type, Callable[[Any, Tensor, dict[str, Tensor]], tuple[Tensor, Tensor, Tensor]]] = {
    Choices: _choices,
    Numbers: _numbers,
}
