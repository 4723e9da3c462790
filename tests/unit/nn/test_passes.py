"""Training's passes against torch in float64."""

import numpy as np
import pytest
from torch_perceptrons import expected

from marless.functions.nn import recurrent
from marless.functions.nn.layers import LayerNorm, Relu, Tanh
from marless.functions.nn.shape import Network
from marless.functions.nn.training_passes import Passes

ACTIVATIONS = pytest.mark.parametrize("activation", [Tanh, Relu])


@ACTIVATIONS
@pytest.mark.parametrize(
    ("sizes", "norm"),
    [
        ((4, 1), None),
        ((3, 5, 2), None),
        ((18, 64, 64, 5), None),
        ((7, 15, 16, 17, 1), None),
        ((18, 64, 15, 5), LayerNorm),
    ],
)
def test_outputs_and_gradients_are_those_of_torch_for_minibatches_of_any_size(sizes, norm, activation):
    network, rng = Network(sizes, activation=activation, norm=norm), np.random.default_rng(1)
    flat, gradient = rng.standard_normal(network.parameters) / 3, np.full(network.parameters, np.nan)
    passes = Passes(network, flat, gradient)
    for rows in (50, 7, 50, 1):
        inputs, grad_output = rng.standard_normal((rows, sizes[0])), rng.standard_normal((rows, sizes[-1]))
        outputs, wanted = expected(network, flat, inputs, grad_output)
        np.testing.assert_allclose(passes.forward(inputs), outputs, rtol=0, atol=1e-12)
        passes.backward(grad_output)
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-12 * max(1, np.abs(wanted).max()))
        weights, written = recurrent.views(network, flat), np.full(network.parameters, np.nan)
        weights.backward(weights.forward(inputs), grad_output, recurrent.views(network, written))
        np.testing.assert_allclose(written, wanted, rtol=0, atol=1e-12 * max(1, np.abs(wanted).max()))
        gradient[:] = np.nan


def test_passes_follow_the_parameters_as_they_change():
    network, rng = Network((3, 5, 2)), np.random.default_rng(2)
    flat, gradient = rng.standard_normal(network.parameters), np.empty(network.parameters)
    passes, inputs, grad_output = Passes(network, flat, gradient), np.ones((4, 3)), np.ones((4, 2))
    passes.forward(inputs)
    passes.backward(grad_output)
    flat[:] = rng.standard_normal(network.parameters)
    outputs, wanted = expected(network, flat, inputs, grad_output)
    np.testing.assert_allclose(passes.forward(inputs), outputs, rtol=0, atol=1e-12)
    passes.backward(grad_output)
    np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-12)
