"""Lists of layers in any order and training's passes, in numpy and in torch: the same outputs, states and gradients."""

import numpy as np
import pytest
import torch
from torch_perceptrons import expected

from marless.functions.nn import recurrent, torch_layers
from marless.functions.nn.layers import KINDS, Gru, LayerNorm, Linear, Normalise, Relu, Tanh, forward
from marless.functions.nn.recurrent import LayeredWeights
from marless.functions.nn.shape import Network
from marless.functions.nn.training_passes import Passes

WIDTHS = (4, 6)
# Norms behind activations, activations behind norms and behind a GRU, and several without a linear layer between.
ORDERS = [
    (Linear, Tanh, LayerNorm, Relu, Linear),
    (LayerNorm, Linear, LayerNorm, LayerNorm, Tanh, Tanh, Linear),
    (Linear, Relu, Gru, Tanh, LayerNorm, Linear),
    (Gru, LayerNorm, Relu, Linear),
]


def drawn(kinds, rng):
    layers, width = [], 3
    for kind in kinds:
        inputs, width = width, rng.integers(*WIDTHS, endpoint=True) if kind.entry else width
        layers.append(kind(*(rng.standard_normal(shape) for shape in kind.shapes(inputs, width))))
    return layers


@pytest.mark.parametrize("kinds", ORDERS)
def test_list_in_any_order_equals_torch(kinds):
    rng = np.random.default_rng(1)
    layers = drawn(kinds, rng)
    weights = LayeredWeights(layers, None)
    inputs = rng.standard_normal((5, 7, 3) if weights.hidden_size else (7, 3))
    parameters = [[torch.tensor(array, requires_grad=True) for array in layer.arrays] for layer in layers]
    x = torch.tensor(inputs, requires_grad=True)
    outputs, _ = torch_layers.forward(list(zip(kinds, parameters, strict=True)), x)
    grad_output = rng.standard_normal(outputs.shape)
    outputs.backward(torch.tensor(grad_output))

    trace = weights.forward(inputs)
    gradient = LayeredWeights([type(layer)(*map(np.empty_like, layer.arrays)) for layer in layers], None)
    weights.backward(trace, grad_output, gradient)
    np.testing.assert_allclose(trace.outputs, outputs.detach().numpy(), rtol=0, atol=1e-12)
    for layer, of_layer in zip(gradient.layers, parameters, strict=True):
        for array, parameter in zip(layer.arrays, of_layer, strict=True):
            np.testing.assert_allclose(array, parameter.grad.numpy(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(weights.input_gradient(inputs, grad_output), x.grad.numpy(), rtol=0, atol=1e-10)


def test_stepwise_acting_gives_outputs_of_whole_sequence():
    rng = np.random.default_rng(2)
    layers = drawn((Linear, Tanh, Gru, LayerNorm, Linear), rng)
    inputs, state = rng.standard_normal((5, 7, 3)), np.zeros((7, layers[2].width(0)))
    whole = LayeredWeights(layers, None).forward(inputs)
    for step, rows in enumerate(inputs):
        outputs, state = forward(layers, rows, state)
        np.testing.assert_allclose(outputs, whole.outputs[step], rtol=0, atol=1e-12)
        np.testing.assert_allclose(state, whole.hidden[step], rtol=0, atol=1e-12)


def test_inputs_are_normalised_and_clipped_without_change():
    layer, inputs = Normalise(np.array([1.0, 0.0]), np.array([2.0, 100.0])), np.array([[2.0, -1.0]])
    outputs, _ = forward([layer], inputs, None)
    np.testing.assert_array_equal(outputs, [[2.0, -10.0]])
    np.testing.assert_array_equal(inputs, [[2.0, -1.0]])


def test_every_kind_is_computed_by_torch():
    assert {*torch_layers.LAYERS, Gru} == {*KINDS.values()}


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
def test_outputs_and_gradients_equal_torch_for_any_minibatch(sizes, norm, activation):
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
