"""A policy as a program of `torch.export`, which plain torch loads and runs without code of ours."""

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marless.coordinator.errors import UserError
from marless.exports.agent_policy import (
    HIDDEN,
    LAST_ACTION,
    NEXT,
    AgentPolicy,
    ChoiceActions,
    FactoryNetwork,
    NumberActions,
)
from marless.exports.torch_order import SortedEntities
from marless.functions.errors import BadRequest
from marless.functions.nn.entities.attention import EntityAttention
from marless.functions.nn.layers import Gru, Layer
from marless.functions.nn.losses import ILLEGAL
from marless.functions.nn.torch_layers import gru_step, layer_of, with_scores
from marless.functions.nn.torch_modules import build


class _Layer(nn.Module):
    """A layer of `marless.functions.nn.layers`. One with a hidden state also takes the state before."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.recurrent = isinstance(layer, Gru)
        self.kind = type(layer)
        self._compute = gru_step if self.recurrent else layer_of(self.kind)
        self.constants = nn.ParameterList(map(_constant, layer.arrays))

    def forward(self, *values: Tensor) -> Tensor:
        return self._compute(*values, *self.constants)


class _Factory(nn.Module):
    def __init__(self, layer: FactoryNetwork) -> None:
        super().__init__()
        self.network, self.observation = build(layer.shape), layer.observation
        self.network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in layer.parameters.items()})
        self.one_hot = _constant(layer.one_hot)

    def forward(self, values: Tensor) -> Tensor:
        width = torch.Size(self.observation).numel()
        # Not len(values), which would fix the number of rows.
        rest = torch.cat([values[:, width:], self.one_hot.expand(values.shape[0], -1)], dim=1)
        return self.network(values[:, :width].reshape(-1, *self.observation), rest)  # type: ignore[no-any-return]


class _Policy(nn.Module):
    def __init__(self, policy: AgentPolicy) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            _Factory(layer) if isinstance(layer, FactoryNetwork) else _Layer(layer) for layer in policy.layers
        )
        self.order = None if policy.order is None else SortedEntities(policy.order)
        self.last_action, self.actions = policy.last_action, policy.actions

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The outputs by name, ``[rows, ...]`` each, equal to the ONNX graph's."""
        values, after = inputs["observation"], {}
        if self.order is not None:
            values = self.order(values)
        if self.last_action:
            values = torch.cat([values, inputs[LAST_ACTION]], dim=1)
        finish = None
        for layer in self.layers:
            if isinstance(layer, _Layer) and layer.recurrent:
                values = after[f"{NEXT}{HIDDEN}"] = layer(values, inputs[HIDDEN])
            else:
                values = layer(values)
                if isinstance(layer, _Layer) and issubclass(layer.kind, EntityAttention):
                    finish = partial(with_scores, layer.kind, values)
        values = values if finish is None else finish(values)
        outputs, action, last_action = _HEADS[type(self.actions)](self.actions, values, inputs)
        if self.last_action:
            after[f"{NEXT}{LAST_ACTION}"] = last_action
        return {"outputs": outputs, "action": action, **after}


def torch_program(policy: AgentPolicy) -> bytes:
    """The program of a policy for any number of rows. Raises `UserError` if a factory's module cannot be made here or
    exported."""
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
        raise UserError(f"{error}; the format onnx needs no module") from error
    except Exception as error:
        line = " ".join(str(error).split())[:300]
        raise UserError(f"torch cannot export the network of {policy.name}: {line}; try the format onnx") from error
    return body.getvalue()


def _constant(array: Any) -> nn.Parameter:
    return nn.Parameter(_tensor(array), requires_grad=False)


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.array(array, order="C"))


def _choices(actions: ChoiceActions, values: Tensor, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    outputs = torch.where(inputs["mask"], values, ILLEGAL)
    indices = [part.argmax(dim=1) for part in torch.split(outputs, list(actions.counts), dim=1)]
    one_hots = [nn.functional.one_hot(one, count) for one, count in zip(indices, actions.counts, strict=True)]
    if actions.joined:
        action = _tensor(actions.table)[indices[0]]
    else:
        action = torch.stack(indices, dim=1) + torch.tensor(actions.first)
    return outputs, action.reshape(-1, *actions.shape), torch.cat(one_hots, dim=1).to(values.dtype)


def _numbers(actions: NumberActions, values: Tensor, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    mean = values[:, : actions.width]
    low, high = torch.tensor(actions.low), torch.tensor(actions.high)
    unit_action = mean.clamp(-1, 1) if actions.clipped else torch.tanh(mean)
    share = 0.5 * (unit_action + 1)
    action = torch.clip((1 - share) * low + share * high, low, high).reshape(-1, *actions.shape)
    return values, action, unit_action * torch.tensor(actions.last_scale) + torch.tensor(actions.last_offset)


_HEADS: dict[type, Callable[[Any, Tensor, dict[str, Tensor]], tuple[Tensor, Tensor, Tensor]]] = {
    ChoiceActions: _choices,
    NumberActions: _numbers,
}
