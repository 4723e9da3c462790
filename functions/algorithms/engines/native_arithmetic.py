"""Arithmetic with the same bytes on every processor: by the kernels, and by numpy's sums and products.

Sums of numpy over an axis have one order of additions, that of its source: in pairs along the last axis of an array,
and else one after another.
"""

import numpy as np

from functions.algorithms.engines.arithmetic import Arithmetic, NumpyPerceptron, Optimiser, Perceptron
from functions.nn.adam import Adam
from functions.nn.layers import Array
from functions.nn.native import calls, elementwise
from functions.nn.native.weights import PerceptronWeights
from functions.nn.shape import Network


class NativeArithmetic(Arithmetic):
    """See `Arithmetic`. Networks of double precision and their optimisers are numpy's."""

    exp = staticmethod(elementwise.exp)
    log = staticmethod(elementwise.log)
    tanh = staticmethod(elementwise.tanh)

    def einsum(self, subscripts: str, first: Array, second: Array) -> Array:
        factors, _, free = subscripts.partition("->")
        axes = free + "".join(sorted({*factors} - {*free, ","}))
        operands = zip((first, second), factors.split(","), strict=True)
        wide = [_wide(array, letters, axes) for array, letters in operands]
        return np.asarray(np.add.reduce(wide[0] * wide[1], axis=tuple(range(len(free), len(axes)))))

    def perceptron(self, network: Network, parameters: Array) -> Perceptron:
        is_covered = calls.covers(network, parameters)
        return (PerceptronWeights if is_covered else NumpyPerceptron)(network, parameters)

    def adam(self, parameters: Array, first: Array, second: Array, steps: int, *settings: float) -> Optimiser:
        is_single = parameters.dtype == np.float32
        return (calls.Optimiser if is_single else Adam)(parameters, first, second, steps, *settings)


def _wide(array: Array, letters: str, axes: str) -> Array:
    """The array, whose axes have these letters, with those of `axes`; those that it lacks have one place."""
    ordered = array.transpose([letters.index(letter) for letter in axes if letter in letters])
    return ordered.reshape([array.shape[letters.index(letter)] if letter in letters else 1 for letter in axes])


NATIVE: Arithmetic = NativeArithmetic()
