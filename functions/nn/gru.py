"""A gated recurrent unit over time in numpy: forward, and the exact gradient back through time in closed form.

Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014, in the form of `torch.nn.GRU`: the reset
gate multiplies the hidden state's product, bias included, and not the hidden state. With a = x Wx + bx and
c = h Wh + bh, three parts of width H each,

    r = sigmoid(a_r + c_r)    z = sigmoid(a_z + c_z)    n = tanh(a_n + r c_n)    h' = (1 - z) n + z h.

The input products of all steps are one matrix product; only the part that depends on the hidden state runs step by
step.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.nn.mlp import Array

Flags = NDArray[np.bool_]


class Weights(NamedTuple):
    """`x` ``[in, 3H]``, `h` ``[H, 3H]`` and their biases `bx`, `bh` ``[3H]``; the parts are r, z, n."""

    x: Array
    h: Array
    bx: Array
    bh: Array

    @property
    def width(self) -> int:
        """H, the width of the hidden state."""
        return int(self.h.shape[0])


@dataclass(frozen=True)
class Unrolled:
    """A forward pass over T steps of B rows, as `backward` needs it.

    `hidden` ``[T, B, H]`` is the state after each step, `before` the state before it. `gates` ``[3, T, B, H]`` are r,
    z, n, and `recalled` ``[T, B, H]`` is c_n. No gradient flows from later steps into the first `burn_in` ones.
    """

    inputs: Array
    starts: Flags | None
    before: Array
    hidden: Array
    gates: Array
    recalled: Array
    burn_in: int


def advance(gates: Array, product: Array, before: Array, after: Array) -> None:
    """One step: turns a in `gates` ``[..., 3H]`` into r, z, n, and writes the state that follows `before` to `after`.

    `product` is c ``[..., 3H]``; states are ``[..., H]``.
    """
    shape = (*gates.shape[:-1], 3, -1)
    _advance(np.moveaxis(gates.reshape(shape), -2, 0), np.moveaxis(product.reshape(shape), -2, 0), before, after)


def _advance(gates: Array, product: Array, before: Array, after: Array) -> None:
    """`advance` with r, z, n on the first axis.

    The sigmoid of x is (1 + tanh(x / 2)) / 2, which cannot overflow.
    """
    both, new = gates[:2], gates[2]
    both += product[:2]
    both *= 0.5
    np.tanh(both, out=both)
    both += 1
    both *= 0.5
    np.multiply(both[0], product[2], out=after)
    new += after
    np.tanh(new, out=new)
    np.subtract(before, new, out=after)
    after *= both[1]
    after += new


def forward(
    weights: Weights, inputs: Array, starts: Flags | None = None, first: Array | None = None, burn_in: int = 0
) -> Unrolled:
    """Unrolls over `inputs` ``[T, B, in]`` from the state `first` ``[B, H]``, zeros if there is none.

    `starts` ``[T, B]`` marks the first steps of episodes, before which the state is reset to zero. The first `burn_in`
    steps only compute the state that the others start from (Kapturowski et al., "Recurrent Experience Replay in
    Distributed Reinforcement Learning", 2019).
    """
    steps, rows, wide = inputs.shape
    width = weights.width
    # One plane each for r, z, n: numpy is many times faster on whole planes than on parts of rows.
    gates = np.matmul(inputs.reshape(steps * rows, wide), _planes(weights.x))
    gates += weights.bx.reshape(3, 1, width)
    gates = gates.reshape(3, steps, rows, width)
    back, bias = _planes(weights.h), weights.bh.reshape(3, 1, width)
    before, hidden, recalled = (np.empty((steps, rows, width), gates.dtype) for _ in range(3))
    product = np.empty((3, rows, width), gates.dtype)
    state = np.zeros((rows, width), gates.dtype) if first is None else first
    for t in range(steps):
        before[t] = state
        if starts is not None:
            before[t][starts[t]] = 0
        np.matmul(before[t], back, out=product)
        product += bias
        recalled[t] = product[2]
        _advance(gates[:, t], product, before[t], hidden[t])
        state = hidden[t]
    return Unrolled(inputs, starts, before, hidden, gates, recalled, burn_in)


class InputGradients(NamedTuple):
    """d loss / d a ``[T, B, 3H]`` as `inputs`, and d loss / d first state ``[B, H]`` as `first`."""

    inputs: Array
    first: Array


def backward(weights: Weights, unrolled: Unrolled, grad_output: Array, gradient: Weights | None) -> InputGradients:
    """Writes d loss / d weights into `gradient`, if there is one, given `grad_output` = d loss / d hidden ``[T, B,
    H]``.

    The gradient at the inputs ``[T, B, in]`` is the returned `inputs` times the transposed `x`.
    """
    steps, rows, width = unrolled.hidden.shape
    by_state, by_new = _step_gradients(unrolled)
    grad_hidden = np.empty_like(unrolled.hidden)  # d loss / d hidden, including the paths through later steps
    from_later, parts = np.zeros((rows, width), by_new.dtype), np.empty((3, rows, width), by_new.dtype)
    update, back = unrolled.gates[1], np.ascontiguousarray(_planes(weights.h).swapaxes(1, 2))
    for t in range(steps - 1, -1, -1):
        here = grad_hidden[t]
        np.add(grad_output[t], from_later, out=here)
        by_state[:, t] *= here  # now d loss / d c
        np.matmul(by_state[:, t], back, out=parts)
        np.multiply(here, update[t], out=from_later)
        for part in parts:
            from_later += part
        if unrolled.starts is not None:
            from_later[unrolled.starts[t]] = 0
        if 0 < t == unrolled.burn_in:
            from_later[:] = 0
    flat = by_state.reshape(3, steps * rows, width).swapaxes(0, 1).reshape(steps * rows, 3 * width)
    if gradient is not None:
        np.matmul(unrolled.before.reshape(steps * rows, width).T, flat, out=gradient.h)
        np.add.reduce(flat, axis=0, out=gradient.bh)
    by_new *= grad_hidden  # now d loss / d a_n; for r and z, d loss / d a equals d loss / d c
    flat[:, 2 * width :] = by_new.reshape(steps * rows, width)
    if gradient is not None:
        np.matmul(unrolled.inputs.reshape(steps * rows, len(weights.x)).T, flat, out=gradient.x)
        np.add.reduce(flat, axis=0, out=gradient.bx)
    return InputGradients(flat.reshape(steps, rows, 3 * width), from_later)


def _step_gradients(unrolled: Unrolled) -> tuple[Array, Array]:
    """d h' / d c ``[3, T, B, H]`` within a step, and d h' / d a_n ``[T, B, H]``."""
    reset, update, new = unrolled.gates
    by_new = 1 - new * new
    by_state = np.empty_like(unrolled.gates)
    np.subtract(1, update, out=by_state[1])
    by_new *= by_state[1]
    by_state[1] *= update
    by_state[1] *= unrolled.before - new
    np.multiply(by_new, reset, out=by_state[2])
    np.subtract(1, reset, out=by_state[0])
    by_state[0] *= by_state[2]
    by_state[0] *= unrolled.recalled
    return by_state, by_new


def _planes(matrix: Array) -> Array:
    """``[in, 3H]`` as ``[3, in, H]``."""
    return np.ascontiguousarray(matrix.reshape(len(matrix), 3, -1).swapaxes(0, 1))
