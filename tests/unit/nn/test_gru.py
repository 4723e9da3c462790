"""The recurrent unit against torch.nn.GRU and automatic differentiation in float64, and by hand."""

import numpy as np
import pytest
import torch

from marless.functions.nn import gru
from marless.functions.nn.layers import Gru

SHAPES = pytest.mark.parametrize(("steps", "rows", "inputs", "width"), [(1, 1, 1, 1), (7, 5, 3, 4), (30, 6, 9, 16)])


def random_unit(inputs, width, seed=0, scale=0.6):
    rng = np.random.default_rng(seed)
    shapes = ((inputs, 3 * width), (width, 3 * width), (3 * width,), (3 * width,))
    return Gru(*(scale * rng.standard_normal(shape) for shape in shapes))


def in_torch(weights):
    unit = torch.nn.GRU(weights.x.shape[0], len(weights.h), dtype=torch.float64)
    unit.weight_ih_l0.data, unit.weight_hh_l0.data = torch.tensor(weights.x.T.copy()), torch.tensor(weights.h.T.copy())
    unit.bias_ih_l0.data, unit.bias_hh_l0.data = torch.tensor(weights.bx), torch.tensor(weights.bh)
    return unit


def torch_unrolled(unit, inputs, starts, first):
    """Hidden states ``[T, B, H]`` of torch's unit, called step by step and set to zero at each episode's start."""
    state, found = first, []
    for values, begins in zip(inputs, torch.tensor(starts), strict=True):
        state = torch.where(begins[:, None], 0.0, state)
        state = unit(values[None], state[None])[1][0]
        found.append(state)
    return torch.stack(found)


def close(found, wanted, rtol=1e-10):
    wanted = wanted.detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rtol * max(np.abs(wanted).max(), 1e-300))


def test_step_equals_formulas_by_hand():
    # With all weights 0, r = sigmoid(ln 3) = 3/4 and z = sigmoid(0 + ln 1) = 1/2. With c_n = 4 and a_n = -3, n =
    # tanh(-3 + 3/4 * 4) = 0, so h' = 1/2 * 0 + 1/2 * 0.8.
    weights = Gru(np.zeros((1, 3)), np.zeros((1, 3)), np.array([np.log(3.0), 0.0, -3.0]), np.array([0.0, 0.0, 4.0]))
    unrolled = gru.forward(weights, np.ones((1, 1, 1)), first=np.array([[0.8]]))
    np.testing.assert_allclose(unrolled.gates[:, 0, 0, 0], [0.75, 0.5, 0.0], atol=1e-15)
    np.testing.assert_allclose(unrolled.hidden, [[[0.4]]], rtol=1e-14)


@SHAPES
def test_states_and_all_gradients_are_those_of_torch(steps, rows, inputs, width):
    weights, rng = random_unit(inputs, width), np.random.default_rng(1)
    values, grad_output = rng.standard_normal((steps, rows, inputs)), rng.standard_normal((steps, rows, width))
    first, starts = rng.standard_normal((rows, width)), rng.random((steps, rows)) < 0.15
    unit = in_torch(weights)
    x, h0 = (torch.tensor(array, requires_grad=True) for array in (values, first))
    expected = torch_unrolled(unit, x, starts, h0)
    expected.backward(torch.tensor(grad_output))

    unrolled = gru.forward(weights, values, starts, first)
    gradient = Gru(*(np.full_like(array, np.nan) for array in weights.arrays))
    gradients = gru.backward(weights, unrolled, grad_output, gradient)
    close(unrolled.hidden, expected)
    close(gradients.inputs @ weights.x.T, x.grad)
    close(gradients.first, h0.grad)
    close(gradient.x, unit.weight_ih_l0.grad.T)
    close(gradient.h, unit.weight_hh_l0.grad.T)
    close(gradient.bx, unit.bias_ih_l0.grad)
    close(gradient.bh, unit.bias_hh_l0.grad)


def test_unit_without_episode_ends_equals_torch():
    weights, rng = random_unit(4, 8), np.random.default_rng(2)
    values = rng.standard_normal((20, 3, 4))
    expected, _ = in_torch(weights)(torch.tensor(values))
    close(gru.forward(weights, values).hidden, expected)


def test_after_a_start_earlier_steps_change_nothing():
    weights, rng = random_unit(3, 5), np.random.default_rng(3)
    values, starts = rng.standard_normal((9, 2, 3)), np.zeros((9, 2), bool)
    starts[4, 1] = True
    found = gru.forward(weights, values, starts, rng.standard_normal((2, 5)))
    alone = gru.forward(weights, values[4:, 1:])
    np.testing.assert_allclose(found.hidden[4:, 1:], alone.hidden, rtol=1e-13)
    grad_output = np.zeros_like(found.hidden)
    grad_output[4:, 1] = 1
    gradients = gru.backward(weights, found, grad_output, None)
    assert not gradients.inputs[:4].any()
    assert not gradients.first.any()
    assert gradients.inputs[4:, 1].all()


@pytest.mark.parametrize("burn_in", [0, 1])
def test_burn_in_makes_state_without_gradient(burn_in):
    """Only n's weight w of the input is not 0. Then r = z = 1/2, h1 = tanh(w x1) / 2, h2 = h1 / 2 + tanh(w x2) / 2.

    So d h2 / d w = x2 (1 - tanh²(w x2)) / 2. A first step after the burn-in adds x1 (1 - tanh²(w x1)) / 4.
    """
    w, one, two = 0.7, 0.9, -0.4
    weights = Gru(np.array([[0, 0, w]]), np.zeros((1, 3)), np.zeros(3), np.zeros(3))
    unrolled = gru.forward(weights, np.array([[[one]], [[two]]]), burn_in=burn_in)
    last = np.tanh(w * one) / 4 + np.tanh(w * two) / 2
    np.testing.assert_allclose(unrolled.hidden[1], [[last]], rtol=1e-14)
    gradient = Gru(*(np.full_like(array, np.nan) for array in weights.arrays))
    gru.backward(weights, unrolled, np.array([[[0.0]], [[1.0]]]), gradient)
    expected = two * (1 - np.tanh(w * two) ** 2) / 2
    expected += 0 if burn_in else one * (1 - np.tanh(w * one) ** 2) / 4
    np.testing.assert_allclose(gradient.x[0, 2], expected, rtol=1e-14)


@pytest.mark.parametrize("length", [1, 4, 10])
def test_chunked_unrolling_gives_states_of_whole(length):
    weights, rng = random_unit(3, 6), np.random.default_rng(4)
    values, starts = rng.standard_normal((23, 4, 3)), rng.random((23, 4)) < 0.2
    whole, state = gru.forward(weights, values, starts).hidden, None
    for begin in range(0, 23, length):
        part = gru.forward(weights, values[begin : begin + length], starts[begin : begin + length], state).hidden
        np.testing.assert_allclose(part, whole[begin : begin + length], rtol=0, atol=1e-14)
        state = part[-1]


def test_hundred_single_precision_steps_follow_torch():
    weights, rng = random_unit(18, 64, scale=0.15), np.random.default_rng(5)
    values = rng.standard_normal((100, 16, 18))
    single = Gru(*(array.astype(np.float32) for array in weights.arrays))
    expected, _ = in_torch(weights).float()(torch.tensor(values, dtype=torch.float32))
    found = gru.forward(single, values.astype(np.float32)).hidden
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=0, atol=1e-5)
    assert np.abs(found).max() > 0.5


def test_gates_far_beyond_saturation_stay_numbers():
    weights = Gru(*(np.full(shape, 1e4, np.float32) for shape in ((1, 3), (1, 3), 3, 3)))
    for sign in (1, -1):
        unrolled = gru.forward(weights, np.full((3, 2, 1), sign * 1e4, np.float32))
        gradients = gru.backward(weights, unrolled, np.ones_like(unrolled.hidden), None)
        assert np.isfinite(unrolled.hidden).all()
        assert np.isfinite(gradients.inputs).all()


def test_backward_pass_leaves_its_inputs_unchanged():
    weights, rng = random_unit(3, 4), np.random.default_rng(6)
    unrolled = gru.forward(weights, rng.standard_normal((5, 2, 3)), rng.random((5, 2)) < 0.3)
    grad_output = rng.standard_normal((5, 2, 4))
    kept = grad_output.copy()
    once, again = (gru.backward(weights, unrolled, grad_output, None) for _ in range(2))
    np.testing.assert_array_equal(grad_output, kept)
    np.testing.assert_array_equal(once.inputs, again.inputs)
    np.testing.assert_array_equal(once.first, again.first)
