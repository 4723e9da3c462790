"""The straight-through Gumbel-softmax in closed form: one-hot choices that a gradient passes through.

Jang, Gu and Poole, "Categorical Reparameterization with Gumbel-Softmax", 2017. Implementations of MADDPG (Lowe et al.,
2017) use it for discrete actions. Callers pass the noise, so a sample depends only on its random address. Rows B,
actions A.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits


class Relaxed(NamedTuple):
    """`hard` ``[B, A]`` is the one-hot of the choice, `soft` ``[B, A]`` the probabilities that are differentiated."""

    hard: Array
    soft: Array
    temperature: float

    def backward(self, grad_output: Array) -> Array:
        """d loss / d logits ``[B, A]`` from d loss / d one-hot `grad_output` ``[B, A]``.

        Straight through: the gradient of `soft`, with the loss evaluated at `hard`. Illegal actions get exactly 0.
        """
        inner = self.soft * grad_output
        inner -= self.soft * inner.sum(axis=1, keepdims=True)
        inner /= self.temperature
        return inner


def noise(uniforms: Array) -> Array:
    """Standard Gumbel numbers from uniform ones in [0, 1), by inverting the distribution function ``exp(-exp(-x))``."""
    smallest = np.finfo(uniforms.dtype).tiny  # 0 has no logarithm. This gives -4.5 in float32, -6.6 in float64
    return np.asarray(-np.log(-np.log(np.maximum(uniforms, smallest))))


def relax(logits: Array, noise: Array, temperature: float = 1.0, legal: NDArray[np.bool_] | None = None) -> Relaxed:
    """Samples an action per row: the maximum of ``logits + noise`` over legal actions, all ``[B, A]``.

    The sample follows ``softmax(logits)`` (the Gumbel-max trick) at every temperature, which only makes `soft` flatter
    (above 1) or sharper (below). Raises `ValueError` for a temperature that is not above 0.
    """
    if temperature <= 0:
        raise ValueError(f"the temperature of a relaxed choice is above 0, not {temperature}")
    noisy_logits = mask_logits(logits + noise, legal)
    exponents = (noisy_logits - noisy_logits.max(axis=1, keepdims=True)) / temperature
    soft = np.exp(exponents)
    soft /= soft.sum(axis=1, keepdims=True)
    return Relaxed(one_hot(noisy_logits.argmax(axis=1), logits.shape[1], logits.dtype), soft, temperature)


def greedy(logits: Array, legal: NDArray[np.bool_] | None = None) -> Array:
    """The one-hot ``[B, A]`` of the highest legal logit, without noise or gradient, as target networks choose."""
    return one_hot(mask_logits(logits, legal).argmax(axis=1), logits.shape[1], logits.dtype)


def one_hot(actions: NDArray[np.integer], width: int, dtype: np.dtype[np.floating]) -> Array:
    """``[B]`` numbers as ``[B, width]``."""
    wide: Array = np.zeros((len(actions), width), dtype)
    wide[np.arange(len(actions)), actions] = 1
    return wide
