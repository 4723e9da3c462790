"""The layers of `marless.functions.nn.layers` in torch, as functions of their inputs and parameters."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from marless.functions.nn.entities.attention import EntityAttention
from marless.functions.nn.entities.forward_pass import HEADS
from marless.functions.nn.layers import EPSILON, MOST_DEVIATIONS, Gru, Layer, LayerNorm, Linear, Normalise, Relu, Tanh


def _linear(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    rows = values.reshape(-1, values.shape[-1])[:, : len(weight)]
    return torch.addmm(bias, rows, weight).reshape(*values.shape[:-1], len(bias))


def _layer_norm(values: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(values, gain.shape, gain, shift, EPSILON)


def _normalise(values: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    return ((values - mean) * inverse).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)


def _entity_attention(kind: type[EntityAttention], values: Tensor, *parameters: Tensor) -> Tensor:
    entities = kind.entities
    own_weight, own_bias, blocks, block_bias, gain, shift, qkv, out, out_bias = parameters
    rows, width = values.reshape(-1, values.shape[-1]), out.shape[-1]
    tokens, present = [(rows[:, list(entities.own)] @ own_weight + own_bias)[:, None]], [torch.ones_like(rows[:, :1])]
    weights = torch.split(blocks, [block.features for block in entities.blocks])
    for block, weight, bias in zip(entities.blocks, weights, block_bias, strict=True):
        features = rows[:, torch.tensor(block.columns, device=rows.device)]
        tokens.append(features @ weight + bias)
        absent = torch.tensor(block.absent or [torch.nan], dtype=rows.dtype, device=rows.device)
        present.append((features != absent).any(dim=-1).to(rows.dtype))
    token, mask = torch.relu(torch.cat(tokens, dim=1)), torch.cat(present, dim=1)
    by_head = rows.shape[0], mask.shape[1], 3, HEADS, width // HEADS
    query, key, value = (_layer_norm(token, gain, shift) @ qkv).reshape(by_head).permute(2, 0, 3, 1, 4)
    scores = query @ key.transpose(-1, -2) * (width // HEADS) ** -0.5
    shares = torch.softmax(scores.masked_fill(mask[:, None, None, :] == 0, -torch.inf), dim=-1)
    features = token + (shares @ value).transpose(1, 2).reshape(token.shape) @ out + out_bias
    mean = (features * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    # The named tokens follow the outputs.
    outputs = torch.cat([features[:, 0], mean, features[:, kind.places()].flatten(1)], dim=-1)
    return outputs.reshape(*values.shape[:-1], outputs.shape[-1])


def with_scores(kind: type[EntityAttention], attended: Tensor, outputs: Tensor) -> Tensor:
    """See `Attention.with_scores`. The layer of this `kind` returned `attended`, and the last layer `outputs`."""
    if not (count := len(kind.places())):
        return outputs
    width = attended.shape[-1] // (2 + count)
    tokens = attended[..., 2 * width :].reshape(*attended.shape[:-1], count, width)
    moves, bias, query = torch.split(outputs, [outputs.shape[-1] - 1 - width, 1, width], dim=-1)
    scores = (tokens @ query[..., None])[..., 0] * width**-0.5
    return torch.cat([moves, scores + bias], dim=-1)


# By kind: the outputs ``[..., out]`` of inputs ``[..., in]`` and the layer's parameters. Weights are ``[in, out]``, the
# transpose of torch.nn.Linear's.
LAYERS: dict[type[Layer], Callable[..., Tensor]] = {
    Linear: _linear,
    LayerNorm: _layer_norm,
    Normalise: _normalise,
    Tanh: torch.tanh,
    Relu: torch.relu,
}


def layer_of(kind: type[Layer]) -> Callable[..., Tensor]:
    """Return the function for this kind of layer, see `LAYERS`."""
    return partial(_entity_attention, kind) if issubclass(kind, EntityAttention) else LAYERS[kind]


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

    With a recurrent layer inputs are sequences ``[T, B, in]``. The second result is its hidden states before and after
    every step ``[T, B, H]``. See `gru.forward` for `starts` ``[T, B]``, `first` ``[B, H]`` and `burn_in`.
    """
    states, finish = None, None
    for kind, parameters in layers:
        if kind is Gru:
            states = _unroll(values, parameters, starts, first, burn_in)
            values = states[1]
        else:
            values = layer_of(kind)(values, *parameters)
            if issubclass(kind, EntityAttention):
                finish = partial(with_scores, kind, values)
    return values if finish is None else finish(values), states


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
