"""Forward and backward passes of a feed-forward network in training, in arrays that are made once.

They compute what `recurrent.Weights.forward` and `backward` do, in fewer operations: what hidden layers are computed
from has a further column of ones, so that the matrix products add the biases and sum their gradients. For minibatches
of some hundred rows the number of operations decides the time outside the products.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functions.nn.layers import Array, Layer, Linear
from functions.nn.shape import Network

# Rows of activations begin at multiples of this many numbers, a cache line of float32: products are faster so.
ALIGNMENT = 16


class Block(NamedTuple):
    """A hidden linear layer as the `matrix` ``[in + 1, out]`` with its bias as last row, and the layers in place
    `behind` it, its norm and its activation, each with the gradient of its parameters.

    `gradient` is that of the matrix; `weight_above` that of the next linear layer, and `transpose` room for its
    transpose.
    """

    matrix: Array
    gradient: Array
    behind: Sequence[tuple[Layer, Layer]]
    weight_above: Array
    transpose: Array


class Hidden(NamedTuple):
    """The arrays of a hidden layer for B rows, and views of them.

    `activations` is wider than the layer; its columns `ones` after the layer's `units` are 1, those after these 0.
    `slopes`, as wide, holds d loss / d activations, then d loss / d pre-activations.
    """

    activations: Array
    units: Array
    ones: Array
    with_ones: Array
    slopes: Array
    unit_slopes: Array


class Arrays(NamedTuple):
    """What a pass over B rows computes in: `inputs` ``[B, in]`` is a view of `with_ones` ``[B, in + 1]``."""

    inputs: Array
    with_ones: Array
    hidden: list[Hidden]


class Passes:
    """The passes of the feed-forward network with the parameters `flat`, whose gradient is written into the flat
    `gradient`."""

    def __init__(self, network: Network, flat: Array, gradient: Array) -> None:
        self._sizes, self._type = network.sizes, flat.dtype
        layers = list(zip(network.layers(flat), network.layers(gradient), strict=True))
        starts = [place for place, (layer, _) in enumerate(layers) if isinstance(layer, Linear)]
        self._last: tuple[Layer, Layer] = layers[-1]
        self._blocks = []
        matrices = zip(network.matrices(flat), network.matrices(gradient), strict=True)
        for (matrix, into), start, end in zip(matrices, starts, starts[1:], strict=False):
            above, _ = layers[end]
            weight = above.arrays[0]
            room = np.empty(weight.shape[::-1], flat.dtype)
            self._blocks.append(Block(matrix, into, layers[start + 1 : end], weight, room))
        self._arrays_by_rows: dict[int, Arrays] = {}
        self._arrays: Arrays
        self._saved: list[list[Any]]

    def forward(self, inputs: Array) -> Array:
        """Outputs ``[B, out]`` of rows ``[B, in]``."""
        self._arrays, self._saved = self._of(len(inputs)), []
        self._arrays.inputs[...] = inputs
        below = self._arrays.with_ones
        for block, hidden in zip(self._blocks, self._arrays.hidden, strict=True):
            np.matmul(below, block.matrix, out=hidden.units)
            caches = []
            for layer, _ in block.behind:
                values = hidden.activations if layer.elementwise else hidden.units
                caches.append(layer.forward(values, values)[1])
            self._saved.append(caches)
            hidden.ones[...] = 1  # which the activation changed
            below = hidden.with_ones
        return self._last[0].forward(self._top())[0]

    def backward(self, grad_output: Array) -> None:
        """Writes d loss / d parameters, given `grad_output` = d loss / d outputs ``[B, out]`` of the last `forward`."""
        last, last_gradient = self._last
        last.backward(self._top(), grad_output, last_gradient, to_inputs=False)
        arrays = self._arrays.hidden
        for index in range(len(arrays) - 1, -1, -1):
            block, hidden = self._blocks[index], arrays[index]
            below = arrays[index - 1] if index else self._arrays
            _descend(block, grad_output, hidden.unit_slopes)
            for (layer, gradient), cache in zip(block.behind[::-1], self._saved[index][::-1], strict=True):
                layer.backward(cache, hidden.slopes if layer.elementwise else hidden.unit_slopes, gradient)
            grad_output = hidden.unit_slopes
            np.matmul(below.with_ones.T, grad_output, out=block.gradient)

    def _top(self) -> Array:
        """What the last layer is computed from, without ones: few outputs are summed in another order with them."""
        return self._arrays.hidden[-1].units if self._arrays.hidden else self._arrays.inputs

    def _of(self, rows: int) -> Arrays:
        """The arrays for so many rows."""
        if rows not in self._arrays_by_rows:
            with_ones = np.ones((rows, self._sizes[0] + 1), self._type)
            hidden = [self._hidden(rows, width) for width in self._sizes[1:-1]]
            self._arrays_by_rows[rows] = Arrays(with_ones[:, :-1], with_ones, hidden)
        return self._arrays_by_rows[rows]

    def _hidden(self, rows: int, width: int) -> Hidden:
        shape = rows, -(-(width + 1) // ALIGNMENT) * ALIGNMENT
        a, slopes = np.zeros(shape, self._type), np.zeros(shape, self._type)
        return Hidden(a, a[:, :width], a[:, width], a[:, : width + 1], slopes, slopes[:, :width])


def _descend(block: Block, grad_output: Array, below: Array) -> None:
    """Writes d loss / d activations of the block, given `grad_output` = d loss / d outputs of the layer above."""
    block.transpose[...] = block.weight_above.T  # a product with a transposed view takes longer
    if len(block.transpose) == 1:
        np.multiply(grad_output, block.transpose, out=below)  # numpy's products with an inner width of 1 are slow
    else:
        np.matmul(grad_output, block.transpose, out=below)
