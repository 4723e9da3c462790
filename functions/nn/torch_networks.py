"""Perceptrons and recurrent networks in torch, with the tensors of `functions.nn.recurrent` under the same names."""

from typing import NamedTuple

import torch
from torch import Tensor

from functions.nn.layer_norm import EPSILON
from functions.nn.recurrent import GAIN, SHIFT


class Layers(NamedTuple):
    """The layers `named` as in storage, their weights ``[in, out]``, the transpose of torch.nn.Linear's.

    Hidden layers are ReLU if `rectified`, else tanh.
    """

    named: dict[str, Tensor]
    rectified: bool

    def perceptron(self, inputs: Tensor) -> Tensor:
        """Outputs ``[..., out]`` of inputs ``[..., in]``."""
        return self._linear(self._last, self._below(inputs))

    def unrolled(
        self, inputs: Tensor, starts: Tensor | None, first: Tensor | None, burn_in: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs ``[T, B, out]`` of sequences ``[T, B, in]``, and the hidden states before and after every step ``[T,
        B, H]``.

        `starts` ``[T, B]``, `first` ``[B, H]`` and `burn_in` are as in `gru.forward`.
        """
        named, values = self.named, self._below(inputs)
        state = inputs.new_zeros(inputs.shape[1], len(named["gru_h"])) if first is None else first
        cell = named["gru_x"].T, named["gru_h"].T, named["gru_bx"], named["gru_bh"]
        before, after = [], []
        for step, row in enumerate(values):
            if step == burn_in:
                state = state.detach()
            if starts is not None:
                state = torch.where(starts[step, :, None], 0.0, state)
            before.append(state)
            state = torch.gru_cell(row, state, *cell)
            after.append(state)
        hidden = torch.stack(after)
        return self._linear(self._last, self._normed(self._last, hidden)), torch.stack(before), hidden

    @property
    def _last(self) -> int:
        return sum(name.startswith("w") for name in self.named) - 1

    def _below(self, values: Tensor) -> Tensor:
        """What the last layer, or the cell, gets."""
        for layer in range(self._last):
            values = self._normed(layer, self._linear(layer, values))
            values = torch.relu(values) if self.rectified else torch.tanh(values)
        return values

    def _normed(self, layer: int, values: Tensor) -> Tensor:
        """The outputs of a hidden layer after its norm, if it has one."""
        if (gain := self.named.get(f"{GAIN}{layer}")) is None:
            return values
        return torch.nn.functional.layer_norm(values, gain.shape, gain, self.named[f"{SHIFT}{layer}"], EPSILON)

    def _linear(self, layer: int, inputs: Tensor) -> Tensor:
        rows = inputs.reshape(-1, inputs.shape[-1])
        return torch.addmm(self.named[f"b{layer}"], rows, self.named[f"w{layer}"]).reshape(*inputs.shape[:-1], -1)
