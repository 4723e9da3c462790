"""Forward and backward passes of a perceptron in training, in arrays that are made once.

They compute what `mlp.forward` and `mlp.backward` do, in fewer operations: what hidden layers are computed from has a
further column of ones, so that the matrix products add the biases and sum their gradients. For minibatches of some
hundred rows the number of operations decides the time outside the products.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from functions.nn.layer_norm import Norm, NormPass
from functions.nn.mlp import Array, activate, backward_activation
from functions.nn.shape import Mlp

# Rows of activations begin at multiples of this many numbers, a cache line of float32: products are faster so.
ALIGNMENT = 16


class Hidden(NamedTuple):
    """The arrays of a hidden layer for B rows, and views of them.

    `activations` is wider than the layer; its columns `ones` after the layer's `own` are 1, those after these 0.
    `slopes`, as wide, holds d loss / d activations, then d loss / d pre-activations.
    """

    activations: Array
    own: Array
    ones: Array
    with_ones: Array
    slopes: Array
    own_slopes: Array


class Arrays(NamedTuple):
    """What a pass over B rows computes in: `inputs` ``[B, in]`` is a view of `with_ones` ``[B, in + 1]``."""

    inputs: Array
    with_ones: Array
    hidden: list[Hidden]


class Passes:
    """The passes of the perceptron with the parameters `flat`, whose gradient is written into the flat `gradient`; the
    hidden layers' `norms` and their gradients, if there are any, into `norm_gradients`."""

    def __init__(
        self,
        mlp: Mlp,
        flat: Array,
        gradient: Array,
        rectified: bool,
        norms: Sequence[Norm] = (),
        norm_gradients: Sequence[Norm] = (),
    ) -> None:
        self._sizes, self._type, self._rectified = mlp.sizes, flat.dtype, rectified
        self._layers, self._gradients = mlp.layers(flat), mlp.layers(gradient)
        self._with_biases, self._gradients_with_biases = _with_biases(mlp, flat), _with_biases(mlp, gradient)
        self._transposed = [
            np.empty((outputs, inputs), flat.dtype) for inputs, outputs in itertools.pairwise(mlp.sizes)
        ]
        self._norms, self._norm_gradients = [NormPass(norm) for norm in norms], norm_gradients
        self._made: dict[int, Arrays] = {}
        self._arrays: Arrays

    def forward(self, inputs: Array) -> Array:
        """Outputs ``[B, out]`` of rows ``[B, in]``."""
        self._arrays = self._of(len(inputs))
        self._arrays.inputs[...] = inputs
        below = self._arrays.with_ones
        for index, hidden in enumerate(self._arrays.hidden):
            np.matmul(below, self._with_biases[index], out=hidden.own)
            if self._norms:
                self._norms[index].forward(hidden.own)
            activate(hidden.activations, self._rectified)
            hidden.ones[...] = 1  # which the activation changed
            below = hidden.with_ones
        weight, bias = self._layers[-1]
        outputs: Array = self._top() @ weight
        outputs += bias
        return outputs

    def backward(self, grad_output: Array) -> None:
        """Writes d loss / d parameters, given `grad_output` = d loss / d outputs ``[B, out]`` of the last `forward`."""
        hidden = self._arrays.hidden
        weight, bias = self._gradients[-1]
        np.matmul(self._top().T, grad_output, out=weight)
        np.add.reduce(grad_output, axis=0, out=bias)
        for index in range(len(hidden) - 1, -1, -1):
            here, below = hidden[index], hidden[index - 1] if index else self._arrays
            self._descend(index + 1, grad_output, here.own_slopes)
            backward_activation(here.slopes, here.activations, self._rectified)
            grad_output = here.own_slopes
            if self._norms:
                self._norms[index].backward(grad_output, self._norm_gradients[index])
            np.matmul(below.with_ones.T, grad_output, out=self._gradients_with_biases[index])

    def _top(self) -> Array:
        """What the last layer is computed from, without ones: few outputs are summed in another order with them."""
        return self._arrays.hidden[-1].own if self._arrays.hidden else self._arrays.inputs

    def _descend(self, index: int, grad_output: Array, below: Array) -> None:
        """Writes d loss / d activations of the layer below."""
        transposed = self._transposed[index]
        transposed[...] = self._layers[index][0].T  # a product with a transposed view takes longer
        if len(transposed) == 1:
            np.multiply(grad_output, transposed, out=below)  # numpy's products with an inner width of 1 are slow
        else:
            np.matmul(grad_output, transposed, out=below)

    def _of(self, rows: int) -> Arrays:
        """The arrays for so many rows."""
        if rows not in self._made:
            with_ones = np.ones((rows, self._sizes[0] + 1), self._type)
            hidden = [self._hidden(rows, width) for width in self._sizes[1:-1]]
            self._made[rows] = Arrays(with_ones[:, :-1], with_ones, hidden)
        return self._made[rows]

    def _hidden(self, rows: int, width: int) -> Hidden:
        shape = rows, -(-(width + 1) // ALIGNMENT) * ALIGNMENT
        a, slopes = np.zeros(shape, self._type), np.zeros(shape, self._type)
        return Hidden(a, a[:, :width], a[:, width], a[:, : width + 1], slopes, slopes[:, :width])


def _with_biases(mlp: Mlp, flat: Array) -> list[Array]:
    """The hidden layers' views ``[in + 1, out]`` of a flat vector: each weight with its bias, which follows it, as last
    row."""
    sizes = list(itertools.pairwise(mlp.sizes))
    ends = list(itertools.accumulate((inputs + 1) * outputs for inputs, outputs in sizes))
    return [flat[end - (i + 1) * o : end].reshape(i + 1, o) for end, (i, o) in zip(ends, sizes, strict=True)][:-1]
