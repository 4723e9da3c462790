"""Forward and backward passes of a feed-forward network in training.

They compute the same as `recurrent.LayeredWeights.forward` and `backward` in fewer operations. Inputs of hidden layers
have a further column of ones, so that the matrix products add the biases and sum their gradients. For minibatches of
some hundred rows the number of operations decides the time outside the products.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from marless.functions.nn.layers import Array, Layer, Linear
from marless.functions.nn.shape import Network


class LayerBlock(NamedTuple):
    """A hidden linear layer as the `matrix` ``[in + 1, out]`` with its bias as last row. The layers in place `behind`
    it are its norm and its activation, each with the gradient of its parameters.

    `gradient` is the matrix's gradient. `weight_above` is the next linear layer's weight.
    """

    matrix: Array
    gradient: Array
    behind: Sequence[tuple[Layer, Layer]]
    weight_above: Array


class Passes:
    """The passes of the feed-forward network with the parameters `flat`, which write its gradient into the flat
    `gradient`."""

    def __init__(self, network: Network, flat: Array, gradient: Array) -> None:
        layers = list(zip(network.layers(flat), network.layers(gradient), strict=True))
        self._precision = flat.dtype
        starts = [place for place, (layer, _) in enumerate(layers) if isinstance(layer, Linear)]
        self._last: tuple[Layer, Layer] = layers[-1]
        matrices = zip(network.matrices(flat), network.matrices(gradient), strict=True)
        self._blocks = [
            LayerBlock(matrix, into, layers[start + 1 : end], layers[end][0].arrays[0])
            for (matrix, into), start, end in zip(matrices, starts, starts[1:], strict=False)
        ]
        # Each block's inputs with ones, and its layers' caches. The inputs of the last layer have no ones, because ones
        # change the order of its sums over few outputs.
        self._saved: list[tuple[Array, list[Any]]]
        self._top: Array

    def forward(self, inputs: Array) -> Array:
        """Outputs ``[B, out]`` of rows ``[B, in]``."""
        self._saved = []
        rows, width = inputs.shape
        below, units = _with_ones(rows, width, self._precision)
        units[...] = inputs
        for block in self._blocks:
            above, units = _with_ones(rows, block.matrix.shape[1], self._precision)
            np.matmul(below, block.matrix, out=units)
            arrays = [above if layer.elementwise else units for layer, _ in block.behind]
            caches = [layer.forward(values, values)[1] for (layer, _), values in zip(block.behind, arrays, strict=True)]
            self._saved.append((below, caches))
            above[:, -1] = 1  # which the activation changed
            below = above
        self._top = units
        return self._last[0].forward(units)[0]

    def backward(self, grad_output: Array) -> None:
        """Writes d loss / d parameters, given `grad_output` = d loss / d outputs ``[B, out]`` of the last `forward`."""
        last, last_gradient = self._last
        last.backward(self._top, grad_output, last_gradient, to_inputs=False)
        for block, (below, caches) in zip(self._blocks[::-1], self._saved[::-1], strict=True):
            wide, slopes = _with_ones(len(grad_output), block.matrix.shape[1], self._precision)
            _descend(grad_output, block.weight_above, slopes)
            for (layer, gradient), cache in zip(block.behind[::-1], caches[::-1], strict=True):
                layer.backward(cache, wide if layer.elementwise else slopes, gradient)
            np.matmul(below.T, slopes, out=block.gradient)
            grad_output = slopes


def _with_ones(rows: int, width: int, precision: np.dtype[Any]) -> tuple[Array, Array]:
    """An array ``[rows, width + 1]`` with ones in the last column, and a view of the others, to be written."""
    wide = np.empty((rows, width + 1), precision)
    wide[:, -1] = 1
    return wide, wide[:, :-1]


def _descend(grad_output: Array, weight: Array, slopes: Array) -> None:
    """Writes d loss / d inputs of a linear layer, given d loss / d outputs."""
    transpose = np.ascontiguousarray(weight.T)  # a product with a transposed view takes longer
    # numpy's products with an inner width of 1 are slow.
    (np.multiply if len(transpose) == 1 else np.matmul)(grad_output, transpose, out=slopes)
