"""Lists of layers in any order, in numpy and in torch: the same outputs, states and gradients."""

import numpy as np
import pytest
import torch

from marless.functions.nn import torch_layers
from marless.functions.nn.layers import KINDS, Gru, LayerNorm, Linear, Normalise, Relu, Tanh, forward
from marless.functions.nn.recurrent import LayeredWeights

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
def test_a_list_in_any_order_has_the_outputs_and_gradients_of_torch(kinds):
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


def test_acting_step_by_step_gives_the_outputs_of_the_whole_sequence():
    rng = np.random.default_rng(2)
    layers = drawn((Linear, Tanh, Gru, LayerNorm, Linear), rng)
    inputs, state = rng.standard_normal((5, 7, 3)), np.zeros((7, layers[2].width(0)))
    whole = LayeredWeights(layers, None).forward(inputs)
    for step, rows in enumerate(inputs):
        outputs, state = forward(layers, rows, state)
        np.testing.assert_allclose(outputs, whole.outputs[step], rtol=0, atol=1e-12)
        np.testing.assert_allclose(state, whole.hidden[step], rtol=0, atol=1e-12)


def test_inputs_are_normalised_and_cut_off_and_stay_as_they_are():
    layer, inputs = Normalise(np.array([1.0, 0.0]), np.array([2.0, 100.0])), np.array([[2.0, -1.0]])
    outputs, _ = forward([layer], inputs, None)
    np.testing.assert_array_equal(outputs, [[2.0, -10.0]])
    np.testing.assert_array_equal(inputs, [[2.0, -1.0]])


def test_every_kind_is_computed_by_torch():
    assert {*torch_layers.LAYERS, Gru} == {*KINDS.values()}
