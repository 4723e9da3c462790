"""Networks against torch in float64, and the guarantees of their initial weights."""

import numpy as np
import pytest
import torch

from functions.nn.mlp import backward, forward, from_tensors, initialise, layers_of, to_tensors
from functions.nn.shape import Mlp


def random_network(sizes, seed=0):
    mlp = Mlp(sizes)
    return mlp, np.random.default_rng(seed).standard_normal(mlp.parameters) / 3


def in_torch(mlp, flat):
    """The same network of torch layers, float64."""
    modules = []
    for weight, bias in mlp.layers(flat):
        linear = torch.nn.Linear(*weight.shape, dtype=torch.float64)
        linear.weight.data, linear.bias.data = torch.tensor(weight.T.copy()), torch.tensor(bias)
        modules += [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*modules[:-1])


@pytest.mark.parametrize("sizes", [(4, 1), (3, 5, 2), (18, 64, 64, 5), (7, 6, 5, 4, 3)])
def test_outputs_and_gradients_are_those_of_torch(sizes):
    mlp, flat = random_network(sizes)
    rng = np.random.default_rng(1)
    inputs, grad_output = rng.standard_normal((50, sizes[0])), rng.standard_normal((50, sizes[-1]))
    reference = in_torch(mlp, flat)
    expected = reference(torch.tensor(inputs))
    expected.backward(torch.tensor(grad_output))

    layers, gradient = mlp.layers(flat), np.full(mlp.parameters, np.nan)
    activations = forward(layers, inputs)
    backward(layers, activations, grad_output, mlp.layers(gradient))
    np.testing.assert_allclose(activations[-1], expected.detach().numpy(), rtol=0, atol=1e-12)
    linears = [module for module in reference if isinstance(module, torch.nn.Linear)]
    wanted = [part for linear in linears for part in (linear.weight.grad.T.reshape(-1), linear.bias.grad)]
    wanted = torch.cat(wanted).numpy()
    np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def test_layers_are_views_into_the_flat_vector():
    mlp = Mlp((2, 3, 1))
    flat = np.arange(13.0)  # (2 + 1) * 3 + (3 + 1) * 1
    assert mlp.parameters == 13
    (w0, b0), (w1, b1) = mlp.layers(flat)
    np.testing.assert_array_equal(w0, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(b0, [6, 7, 8])
    np.testing.assert_array_equal(w1, [[9], [10], [11]])
    np.testing.assert_array_equal(b1, [12])
    b1[0] = -1
    assert flat[12] == -1


def test_initial_weights_are_orthogonal_with_their_gains_and_biases_zero():
    mlp = Mlp((10, 64, 64, 5))
    layers = mlp.layers(initialise(mlp, np.random.default_rng(2), output_gain=0.01))
    for (weight, bias), gain in zip(layers, (np.sqrt(2), np.sqrt(2), 0.01), strict=True):
        short = weight if weight.shape[0] <= weight.shape[1] else weight.T
        np.testing.assert_allclose(short @ short.T, gain**2 * np.eye(len(short)), atol=1e-6)
        assert (bias == 0).all()
        assert weight.dtype == np.float32


def test_a_network_comes_back_from_its_tensors():
    mlp, flat = random_network((3, 5, 2))
    other = Mlp((3, 2))
    tensors = to_tensors(mlp, flat, "policy/g01") | to_tensors(other, np.zeros(8), "policy/g02")
    assert sorted(tensors) == [
        f"policy/{name}" for name in ("g01/b0", "g01/b1", "g01/w0", "g01/w1", "g02/b0", "g02/w0")
    ]
    back, copy = from_tensors(tensors, "policy/g01")
    assert back == mlp
    np.testing.assert_array_equal(copy, flat)
    copy[:] = 0
    assert (flat != 0).all()


def test_a_network_that_is_not_there_is_named():
    with pytest.raises(KeyError, match="policy/g07"):
        layers_of({}, "policy/g07")
