"""Relaxed choices against automatic differentiation with the same noise, and their guaranteed properties."""

import math

import numpy as np
import pytest
import torch

from marless.functions.nn import gumbel


def random_case(seed, masked, rows=200, actions=5):
    rng = np.random.default_rng(seed)
    logits, grad_output = 2 * rng.standard_normal((2, rows, actions))
    legal = rng.random((rows, actions)) < 0.6 if masked else np.ones((rows, actions), bool)
    legal[np.arange(rows), rng.integers(actions, size=rows)] = True
    return logits, gumbel.noise(rng.random((rows, actions))), grad_output, legal


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 4.0])
def test_choice_and_gradient_equal_automatic_differentiation(temperature, masked):
    logits, noise, grad_output, legal = random_case(0, masked)
    z = torch.tensor(logits, requires_grad=True)
    legal_logits = torch.where(torch.tensor(legal), z + torch.tensor(noise), -torch.inf)
    soft = torch.softmax(legal_logits / temperature, dim=1)
    hard = torch.nn.functional.one_hot(soft.argmax(dim=1), 5).double()
    through = hard - soft.detach() + soft  # the straight-through choice of torch.nn.functional.gumbel_softmax
    (torch.sin(through) * torch.tensor(grad_output)).sum().backward()

    got = gumbel.relax(logits, noise, temperature, legal if masked else None)
    np.testing.assert_array_equal(got.hard, hard.numpy())
    np.testing.assert_allclose(got.soft, soft.detach().numpy(), rtol=1e-10, atol=1e-300)
    down = got.backward(np.cos(got.hard) * grad_output)  # the loss is evaluated at the one-hot
    np.testing.assert_allclose(down, z.grad.numpy(), rtol=1e-10, atol=1e-13)
    assert (got.hard[~legal] == 0).all()
    assert (down[~legal] == 0).all()


def test_two_actions_are_relaxed_like_hand_computation():
    # Logits plus noise (ln 3, 0): probabilities ¾ and ¼. Gradient of error (1, 0): p (e - Σ p e) = ¾·¼ and -¼·¾.
    got = gumbel.relax(np.array([[math.log(3) - 1, -2.0]]), np.array([[1.0, 2.0]]))
    np.testing.assert_array_equal(got.hard, [[1, 0]])
    np.testing.assert_allclose(got.soft, [[0.75, 0.25]], rtol=1e-12)
    np.testing.assert_allclose(got.backward(np.array([[1.0, 0.0]])), [[3 / 16, -3 / 16]], rtol=1e-12)
    # Twice as sharp: 9 : 1, and the gradient twice as steep: 2·0.9·0.1.
    sharp = gumbel.relax(np.array([[math.log(3), 0.0]]), np.zeros((1, 2)), temperature=0.5)
    np.testing.assert_allclose(sharp.soft, [[0.9, 0.1]], rtol=1e-12)
    np.testing.assert_allclose(sharp.backward(np.array([[1.0, 0.0]])), [[0.18, -0.18]], rtol=1e-12)


def test_choices_follow_legal_softmax_at_any_temperature():
    rng = np.random.default_rng(1)
    count = 40_000
    logits = np.tile(np.log([[1.0, 2.0, 5.0, 9.0]]), (count, 1))
    legal = np.tile([[True, True, True, False]], (count, 1))
    noise = gumbel.noise(rng.random((count, 4)))
    shares = gumbel.relax(logits, noise, 0.7, legal).hard.mean(axis=0)
    expected = np.array([1, 2, 5, 0]) / 8
    # Five standard deviations of a share.
    assert (np.abs(shares - expected) <= 5 * np.sqrt(expected * (1 - expected) / count)).all()
    np.testing.assert_array_equal(gumbel.relax(logits, noise, 7.0, legal).hard.mean(axis=0), shares)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_inverts_distribution_function_and_is_finite(dtype):
    uniforms = np.array([1 / math.e, math.exp(-math.e), math.exp(-1 / math.e)], dtype)  # exp(-exp(-x)), x = 0, -1, 1
    np.testing.assert_allclose(gumbel.noise(uniforms), [0, -1, 1], atol=20 * np.finfo(dtype).eps)
    edges = gumbel.noise(np.array([0, np.nextafter(dtype(1), dtype(0))], dtype))
    assert edges.dtype == dtype
    assert np.isfinite(edges).all()
    assert edges[0] < -4 and edges[1] > 16  # far out, on the right sides


def test_the_greedy_choice_is_the_greatest_legal_logit():
    logits = np.array([[1.0, 3, 2], [1.0, 3, 2], [-1.0, -1, -5]])
    legal = np.array([[True, True, True], [True, False, True], [False, False, True]])
    np.testing.assert_array_equal(gumbel.greedy(logits, legal), [[0, 1, 0], [0, 0, 1], [0, 0, 1]])
    np.testing.assert_array_equal(gumbel.greedy(logits), [[0, 1, 0], [0, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_choice_keeps_the_type_of_its_logits(dtype):
    logits, noise, grad_output, legal = random_case(2, masked=True)
    got = gumbel.relax(logits.astype(dtype), noise.astype(dtype), 0.5, legal)
    arrays = (got.hard, got.soft, got.backward(grad_output.astype(dtype)), gumbel.greedy(logits.astype(dtype), legal))
    assert {array.dtype for array in arrays} == {np.dtype(dtype)}


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_the_temperature_is_above_zero(temperature):
    with pytest.raises(ValueError, match="above 0, not"):
        gumbel.relax(np.zeros((1, 2)), np.zeros((1, 2)), temperature)
