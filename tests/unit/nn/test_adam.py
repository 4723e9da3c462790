"""Adam and the norm cap against numbers worked out by hand and against torch."""

import numpy as np
import pytest
import torch

from marless.functions.errors import NotFinite
from marless.functions.nn.adam import Adam


def adam(parameters, **changes):
    settings = {"steps": 0, "lr": 0.01, "epsilon": 1e-5, "max_grad_norm": 10.0} | changes
    return Adam(parameters, np.zeros_like(parameters), np.zeros_like(parameters), **settings)


def test_first_step_is_step_size_against_gradient_sign():
    # m / (1 - 0.9) = g and √(v / (1 - 0.999)) = |g|. The step is lr g / (|g| + ε) = 0.5 * 3 / (3 + 1).
    parameters = np.array([1.0])
    adam(parameters, lr=0.5, epsilon=1.0).step(np.array([3.0]))
    np.testing.assert_allclose(parameters, [1 - 0.375], rtol=1e-12)


def test_long_gradient_is_scaled_and_its_norm_returned():
    optimiser, gradient = adam(np.zeros(2), max_grad_norm=1.0), np.array([3.0, 4.0])
    assert optimiser.step(gradient) == 5.0
    np.testing.assert_allclose(gradient, [0.6, 0.8], rtol=1e-6)  # torch divides by norm + 1e-6
    np.testing.assert_allclose(optimiser.first, 0.1 * gradient, rtol=1e-12)
    gradient = np.array([0.3, 0.4])
    optimiser.step(gradient)
    np.testing.assert_array_equal(gradient, [0.3, 0.4])


@pytest.mark.parametrize(("precision", "size"), [(np.float32, 2e19), (np.float64, 2e154)])
def test_gradient_with_overflowing_norm_is_error(precision, size):
    parameters = np.ones(3, precision)
    with np.errstate(over="ignore"), pytest.raises(NotFinite, match="the norm of a gradient overflows"):
        adam(parameters).step(np.array([0, size, 1], precision))
    assert np.array_equal(parameters, np.ones(3))


def test_fifty_capped_steps_are_those_of_torch():
    rng = np.random.default_rng(6)
    start = rng.standard_normal(40)
    gradients = rng.standard_normal((50, 40)) * np.linspace(0.2, 3, 50)[:, None]
    weight = torch.nn.Parameter(torch.tensor(start))
    reference = torch.optim.Adam([weight], lr=3e-3, eps=1e-5)
    parameters = start.copy()
    optimiser = adam(parameters, lr=3e-3, max_grad_norm=8.0)
    norms = []
    for gradient in gradients:
        weight.grad = torch.tensor(gradient)
        expected = torch.nn.utils.clip_grad_norm_([weight], 8.0).item()
        reference.step()
        norms.append(optimiser.step(gradient.copy()))
        assert norms[-1] == pytest.approx(expected, rel=1e-12)
    assert min(norms) < 8 < max(norms)
    state = reference.state[weight]
    for found, wanted in (
        (parameters, weight.detach()),
        (optimiser.first, state["exp_avg"]),
        (optimiser.second, state["exp_avg_sq"]),
    ):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-12, atol=1e-14)


def test_training_continues_from_stored_state_without_difference():
    gradients = np.random.default_rng(7).standard_normal((6, 5)).astype(np.float32)
    through, stopped = np.ones(5, np.float32), np.ones(5, np.float32)
    straight, first = adam(through), adam(stopped)
    for gradient in gradients:
        straight.step(gradient.copy())
    for gradient in gradients[:3]:
        first.step(gradient.copy())
    second = Adam(stopped.copy(), first.first.copy(), first.second.copy(), first.steps, 0.01, 1e-5, 10.0)
    for gradient in gradients[3:]:
        second.step(gradient.copy())
    np.testing.assert_array_equal(second.parameters, through)
    assert second.steps == 6
    assert through.dtype == np.float32
