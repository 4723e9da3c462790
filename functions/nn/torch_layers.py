"""What the layers of `functions.nn.layers` compute in torch, as functions of their inputs and parameters."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from functions.nn.layers import EPSILON, MOST_DEVIATIONS, Gru, Layer, LayerNorm, Linear, Normalise, Relu, Tanh


def _linear(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    rows = values.reshape(-1, values.shape[-1])
    return torch.addmm(bias, rows, weight).reshape(*values.shape[:-1], len(bias))


def _layer_norm(values: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(values, gain.shape, gain, shift, EPSILON)


def _normalise(values: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return ((values - mean) * inverse).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)


# By kind: the outputs ``[..., out]`` of inputs ``[..., in]`` and the layer's parameters. Weights are ``[in, out]``, the
# transpose of torch.nn.Linear's.
LAYERS: dict[type[Layer], Callable[..., Tensor]] = {
    Linear: _linear,
    LayerNorm: _layer_norm,
    Normalise: _normalise,
    Tanh: torch.tanh,
    Relu: torch.relu,
}


def gru_step(values: Tensor, before: Tensor, x: Tensor, h: Tensor, bx: Tensor, bh: Tensor) -> Tensor:
    """The state ``[B, H]`` that follows `before`, of a `Gru` with these parameters."""
    return torch.gru_cell(values, before, x.T, h.T, bx, bh)


def forward(
    layers: Sequence[tuple[type[Layer], Sequence[Tensor]]],
    values: Tensor,
    starts: Tensor | None = None,
    first: Tensor | None = None,
    burn_in: int = 0,
) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    """Outputs ``[..., out]`` of inputs ``[..., in]`` of layers with their parameters.

    With a recurrent layer inputs are sequences ``[T, B, in]``; the second result is its hidden states before and after
    every step ``[T, B, H]``. `starts` ``[T, B]``, `first` ``[B, H]`` and `burn_in` are as in `gru.forward`.
    """
    states = None
    for kind, parameters in layers:
        if kind is Gru:
            states = _unroll(values, parameters, starts, first, burn_in)
            values = states[1]
        else:
            values = LAYERS[kind](values, *parameters)
    return values, states


def _unroll(
    inputs: Tensor, parameters: Sequence[Tensor], starts: Tensor | None, first: Tensor | None, burn_in: int
) -> tuple[Tensor, Tensor]:
    x, h, bx, bh = parameters
    cell = x.T, h.T, bx, bh
    state = inputs.new_zeros(inputs.shape[1], len(h)) if first is None else first
    before, after = [], []
    for step, row in enumerate(inputs):
        if step == burn_in:
            state = state.detach()
        if starts is not None:
            state = torch.where(starts[step, :, None], 0.0, state)
        before.append(state)
        state = torch.gru_cell(row, state, *cell)
        after.append(state)
    return torch.stack(before), torch.stack(after)
