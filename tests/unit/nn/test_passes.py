"""Training's passes against torch in float64."""

import numpy as np
import pytest
import torch

from functions.nn import recurrent
from functions.nn.passes import Passes
from functions.nn.shape import Mlp, Network
from functions.nn.torch_networks import Layers


def in_torch(mlp, flat, rectified):
    """The same network of torch layers, float64, and its linear layers."""
    linears, modules = [], []
    for weight, bias in mlp.layers(flat):
        linear = torch.nn.Linear(*weight.shape, dtype=torch.float64)
        linear.weight.data, linear.bias.data = torch.tensor(weight.T.copy()), torch.tensor(bias)
        linears.append(linear)
        modules += [linear, torch.nn.ReLU() if rectified else torch.nn.Tanh()]
    return torch.nn.Sequential(*modules[:-1]), linears


def expected(mlp, flat, rectified, inputs, grad_output):
    """Outputs and flat gradient."""
    reference, linears = in_torch(mlp, flat, rectified)
    outputs = reference(torch.tensor(inputs))
    outputs.backward(torch.tensor(grad_output))
    gradient = torch.cat([part for one in linears for part in (one.weight.grad.T.reshape(-1), one.bias.grad)])
    return outputs.detach().numpy(), gradient.numpy()


@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("sizes", [(4, 1), (3, 5, 2), (18, 64, 64, 5), (7, 15, 16, 17, 1)])
def test_outputs_and_gradients_are_those_of_torch_for_minibatches_of_any_size(sizes, rectified):
    mlp, rng = Mlp(sizes), np.random.default_rng(1)
    flat, gradient = rng.standard_normal(mlp.parameters) / 3, np.full(mlp.parameters, np.nan)
    passes = Passes(mlp, flat, gradient, rectified)
    for rows in (50, 7, 50, 1):
        inputs, grad_output = rng.standard_normal((rows, sizes[0])), rng.standard_normal((rows, sizes[-1]))
        outputs, wanted = expected(mlp, flat, rectified, inputs, grad_output)
        np.testing.assert_allclose(passes.forward(inputs), outputs, rtol=0, atol=1e-12)
        passes.backward(grad_output)
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize("rectified", [False, True])
def test_normalised_layers_have_the_gradients_of_torch(rectified):
    network, rng = Network((18, 64, 15, 5), rectified=rectified, layer_norm=True), np.random.default_rng(1)
    flat, gradient = rng.standard_normal(network.parameters) / 3, np.full(network.parameters, np.nan)
    weights, views = recurrent.views(network, flat), recurrent.views(network, gradient)
    passes = Passes(Mlp(network.sizes), flat, gradient, rectified, weights.norms, views.norms)
    for rows in (50, 7, 50, 1):
        inputs, grad_output = rng.standard_normal((rows, 18)), rng.standard_normal((rows, 5))
        parameters = {name: torch.tensor(array, requires_grad=True) for name, array in weights.named().items()}
        outputs = Layers(parameters, rectified).perceptron(torch.tensor(inputs))
        outputs.backward(torch.tensor(grad_output))
        np.testing.assert_allclose(passes.forward(inputs), outputs.detach().numpy(), rtol=0, atol=1e-12)
        passes.backward(grad_output)
        for name, found in views.named().items():
            if name != "relu":
                wanted = parameters[name].grad.numpy()
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * max(1, np.abs(wanted).max()))
        gradient[:] = np.nan


def test_passes_follow_the_parameters_as_they_change():
    mlp, rng = Mlp((3, 5, 2)), np.random.default_rng(2)
    flat, gradient = rng.standard_normal(mlp.parameters), np.empty(mlp.parameters)
    passes, inputs, grad_output = Passes(mlp, flat, gradient, False), np.ones((4, 3)), np.ones((4, 2))
    passes.forward(inputs)
    passes.backward(grad_output)
    flat[:] = rng.standard_normal(mlp.parameters)
    outputs, wanted = expected(mlp, flat, False, inputs, grad_output)
    np.testing.assert_allclose(passes.forward(inputs), outputs, rtol=0, atol=1e-12)
    passes.backward(grad_output)
    np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-12)
