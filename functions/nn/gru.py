"""The gated recurrent unit over time in numpy: forward, and the exact gradient back through time in closed form.

The input products of all steps are one matrix product. Only the part that depends on the hidden state runs step by
step. `marless.functions.nn.layers.Gru` has the equations: a = x Wx + bx and c = h Wh + bh.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.nn.layers import Array, Gru, advance

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Unrolled:
    """A forward pass over T steps of B rows, as the gradient needs it.

    `hidden` ``[T, B, H]`` is the state after each step, `before` the state before it. `gates` ``[3, T, B, H]`` are r,
    z, n, and `state_new` ``[T, B, H]`` is c_n. No gradient flows from later steps into the first `burn_in` ones.
    """

    inputs: Array
    starts: Flags | None
    before: Array
    hidden: Array
    gates: Array
    state_new: Array
    burn_in: int


class InputGradients(NamedTuple):
    """d loss / d a ``[T, B, 3H]`` as `inputs`, and d loss / d first state ``[B, H]`` as `first`."""

    inputs: Array
    first: Array


def forward(
    layer: Gru, inputs: Array, starts: Flags | None = None, first: Array | None = None, burn_in: int = 0
) -> Unrolled:
    """The states over `inputs` ``[T, B, in]`` from the state `first` ``[B, H]``, zeros if there is none.

    `starts` ``[T, B]`` marks the first steps of episodes, which begin with a state of zeros. The first `burn_in` steps
    only compute the state that the others start from (Kapturowski et al., "Recurrent Experience Replay in Distributed
    Reinforcement Learning", 2019).
    """
    steps, rows, features = inputs.shape
    width = layer.width(features)
    # One plane each for r, z, n: numpy is many times faster on whole planes than on parts of rows.
    gates = np.matmul(inputs.reshape(steps * rows, features), _planes(layer.x))
    gates += layer.bx.reshape(3, 1, width)
    gates = gates.reshape(3, steps, rows, width)
    recurrent, bias = _planes(layer.h), layer.bh.reshape(3, 1, width)
    before, hidden, state_new = (np.empty((steps, rows, width), gates.dtype) for _ in range(3))
    state = np.zeros((rows, width), gates.dtype) if first is None else first
    for t in range(steps):
        before[t] = state
        if starts is not None:
            before[t][starts[t]] = 0
        product = before[t] @ recurrent
        product += bias
        state_new[t] = product[2]
        advance(gates[:, t], product, before[t], hidden[t])
        state = hidden[t]
    return Unrolled(inputs, starts, before, hidden, gates, state_new, burn_in)


def backward_rows(layer: Gru, trace: Unrolled, grad_output: Array, gradient: Gru | None, to_inputs: bool) -> Array:
    """See `Layer`. Rows cover all steps, ``[T * B, ...]``."""
    by_gates = backward(layer, trace, grad_output.reshape(trace.hidden.shape), gradient).inputs
    rows = by_gates.reshape(-1, by_gates.shape[-1])
    return rows @ layer.x.T if to_inputs else rows


def backward(layer: Gru, trace: Unrolled, grad_output: Array, gradient: Gru | None) -> InputGradients:
    """Writes d loss / d parameters into `gradient`, if there is one, given `grad_output` = d loss / d hidden ``[T,
    B, H]``.

    The gradient at the inputs ``[T, B, in]`` is the returned `inputs` times the transposed `x`.
    """
    steps, rows, width = trace.hidden.shape
    by_state, by_new = _step_gradients(trace)
    grad_hidden = np.empty_like(trace.hidden)  # d loss / d hidden, including the paths through later steps
    from_later = np.zeros((rows, width), by_new.dtype)
    update, recurrent = trace.gates[1], np.ascontiguousarray(_planes(layer.h).swapaxes(1, 2))
    for t in range(steps - 1, -1, -1):
        here = grad_hidden[t] = grad_output[t] + from_later
        by_state[:, t] *= here  # now d loss / d c
        from_later = here * update[t]
        for part in by_state[:, t] @ recurrent:
            from_later += part
        if trace.starts is not None:
            from_later[trace.starts[t]] = 0
        if 0 < t == trace.burn_in:
            from_later[:] = 0
    flat = by_state.reshape(3, steps * rows, width).swapaxes(0, 1).reshape(steps * rows, 3 * width)
    if gradient is not None:
        np.matmul(trace.before.reshape(steps * rows, width).T, flat, out=gradient.h)
        np.add.reduce(flat, axis=0, out=gradient.bh)
    by_new *= grad_hidden  # now d loss / d a_n. For r and z, d loss / d a equals d loss / d c
    flat[:, 2 * width :] = by_new.reshape(steps * rows, width)
    if gradient is not None:
        np.matmul(trace.inputs.reshape(steps * rows, len(layer.x)).T, flat, out=gradient.x)
        np.add.reduce(flat, axis=0, out=gradient.bx)
    return InputGradients(flat.reshape(steps, rows, 3 * width), from_later)


def _step_gradients(trace: Unrolled) -> tuple[Array, Array]:
    """d h' / d c ``[3, T, B, H]`` within a step, and d h' / d a_n ``[T, B, H]``."""
    reset, update, new = trace.gates
    rest, by_state = 1 - update, np.empty_like(trace.gates)
    by_new = (1 - new * new) * rest
    np.multiply(rest * update, trace.before - new, out=by_state[1])
    np.multiply(by_new, reset, out=by_state[2])
    np.multiply((1 - reset) * by_state[2], trace.state_new, out=by_state[0])
    return by_state, by_new


def _planes(matrix: Array) -> Array:
    """``[in, 3H]`` as ``[3, in, H]``."""
    return np.ascontiguousarray(matrix.reshape(len(matrix), 3, -1).swapaxes(0, 1))
