"""A network's weights as an algorithm uses them, whichever engine computes with them."""

from typing import Any, Protocol

import numpy as np

from marless.functions.nn.gru import Flags
from marless.functions.nn.layers import Array


class Trace(Protocol):
    """A forward pass, with the numbers that the gradient needs."""

    @property
    def outputs(self) -> Array:
        """Return the outputs, ``[..., out]``."""

    @property
    def hidden(self) -> Array:
        """Return the hidden states after every step, ``[T, B, H]``. Raises `ValueError` for a feed-forward network."""

    @property
    def before(self) -> Array:
        """Return the hidden states before every step, ``[T, B, H]``. Raises `ValueError` for a feed-forward network."""


class Weights(Protocol):
    """Weights of a network."""

    @property
    def log_std(self) -> Array | None:
        """Return the logarithms of a Gaussian policy's standard deviations, ``[out]``, or None for another network."""

    @property
    def clips_actions(self) -> bool:
        """Return whether samples of a Gaussian policy are clipped at their bounds. Else tanh squashes them."""

    @property
    def hidden_size(self) -> int:
        """Return the width of the hidden state, or 0 for a feed-forward network."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the precision of the weights."""

    def to_tensors(self) -> dict[str, Array]:
        """The tensors by their names in storage, trained tensors in the order of the flat vector."""

    def forward(
        self, inputs: Array, starts: Flags | None = None, first: Array | None = None, burn_in: int = 0
    ) -> Trace:
        """Maps rows ``[rows, in]`` to ``[rows, out]``, or with a hidden state sequences ``[T, B, in]`` to ``[T, B,
        out]``. See `gru.forward` for `starts` ``[T, B]``, `first` ``[B, H]`` and `burn_in`."""

    def input_gradient(self, inputs: Array, grad_output: Array, first: Array | None = None) -> Array:
        """d loss / d inputs, shaped like them, from d loss / d outputs. See `forward` for `inputs` and `first`."""


def unroll(weights: Weights, inputs: Array, starts: Flags, burn_in: int = 0) -> tuple[Array, Trace]:
    """Outputs ``[T, B, out]`` of sequences ``[T, B, in]``, for recurrent and feed-forward networks, and their trace.

    The trace of a feed-forward network has rows ``[T * B, ...]``, as `Weights.forward` takes them.
    """
    if weights.hidden_size:
        trace = weights.forward(inputs, starts, burn_in=burn_in)
        return trace.outputs, trace
    trace = weights.forward(inputs.reshape(-1, inputs.shape[-1]))
    return trace.outputs.reshape(*inputs.shape[:2], -1), trace
