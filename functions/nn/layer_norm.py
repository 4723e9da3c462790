"""Layer normalisation in numpy: forward, and the exact gradient in closed form.

Ba, Kiros and Hinton, "Layer Normalization", 2016, as `torch.nn.LayerNorm` computes it. Over the H units x of a row,
with their mean m and variance v,

    y = gain u + shift    with u = (x - m) / √(v + ε),

and d loss / d x = (g - mean(g) - u mean(g u)) / √(v + ε) for g = gain · d loss / d y.
"""

from typing import NamedTuple

import numpy as np

from functions.nn.mlp import Array

EPSILON = 1e-5


class Norm(NamedTuple):
    """The parameters of a layer's norm, `gain` and `shift` ``[H]``; with further axes before H, of several networks."""

    gain: Array
    shift: Array


class NormPass:
    """One pass of rows through a norm: `forward`, then `backward`."""

    def __init__(self, norm: Norm) -> None:
        self._norm = norm
        self._units: Array
        self._inverse: Array

    def forward(self, values: Array) -> None:
        """Normalises rows ``[..., H]`` in place."""
        units = values - _row_means(values)
        variance = _row_means(units, units)
        variance += EPSILON
        self._inverse = 1 / np.sqrt(variance, out=variance)
        units *= self._inverse
        self._units = units
        np.multiply(units, self._norm.gain, out=values)
        values += self._norm.shift

    def backward(self, grad_output: Array, gradient: Norm | None) -> None:
        """Turns d loss / d outputs ``[rows, H]`` of the last `forward` into d loss / d inputs, in place; writes d loss
        / d parameters into `gradient`, if there is one."""
        units = self._units
        if gradient is not None:
            np.einsum("rh,rh->h", grad_output, units, out=gradient.gain)
            np.add.reduce(grad_output, axis=0, out=gradient.shift)
        grad_output *= self._norm.gain
        along = _row_means(grad_output, units)
        grad_output -= _row_means(grad_output)
        grad_output -= units * along
        grad_output *= self._inverse


def _row_means(*factors: Array) -> Array:
    """The means over the last axis ``[..., 1]`` of the product; `einsum` is the fastest way for some ten numbers."""
    of = ",".join(["...h"] * len(factors))
    means: Array = np.einsum(f"{of}->...", *factors)[..., np.newaxis]
    means /= factors[0].dtype.type(factors[0].shape[-1])
    return means
