"""Recurrent and feed-forward networks on one flat vector: against torch in float64, and their tensors' guarantees."""

import numpy as np
import pytest
import torch

from marless.functions.nn import recurrent
from marless.functions.nn.layers import LayerNorm, Linear, Relu
from marless.functions.nn.shape import Network

SHAPES = [
    Network((4, 6, 3)),
    Network((4, 6, 3), gaussian=True),
    Network((4, 6, 3), recurrent=True),
    Network((5, 8, 7, 2), recurrent=True, gaussian=True),
    Network((5, 8, 6, 7, 2), recurrent=True),
    Network((4, 6, 5, 3), activation=Relu),
    Network((5, 8, 7, 2), recurrent=True, activation=Relu),
    Network((4, 6, 3), gaussian=True, clipped=True),
    Network((5, 8, 6, 2), gaussian=True, norm=LayerNorm),
    Network((4, 6, 5, 3), activation=Relu, norm=LayerNorm),
    Network((4, 6, 3), recurrent=True, norm=LayerNorm),
    Network((5, 8, 6, 7, 2), recurrent=True, activation=Relu, gaussian=True, norm=LayerNorm),
]


def random_network(network, seed=0):
    return np.random.default_rng(seed).standard_normal(network.parameters) / 2


def torch_norm(named, layer, values):
    if f"gain{layer}" not in named:
        return values
    norm = torch.nn.LayerNorm(values.shape[-1], dtype=torch.float64)
    parameters = {"weight": named[f"gain{layer}"], "bias": named[f"shift{layer}"]}
    return torch.func.functional_call(norm, parameters, values)


def torch_outputs(named, inputs, starts, first):
    """By torch's layers, from tensors by name. ``[T, B, in] -> [T, B, out]``, step by step."""
    unit = None
    if "gru_x" in named:
        width = named["gru_h"].shape[0]
        unit = {
            "weight_ih": named["gru_x"].T, "weight_hh": named["gru_h"].T,
            "bias_ih": named["gru_bx"], "bias_hh": named["gru_bh"],
        }  # fmt: skip
        cell = torch.nn.GRUCell(named["gru_x"].shape[0], width, dtype=torch.float64)
    count, state, found = sum(name.startswith("w") for name in named), first, []
    for values, begins in zip(inputs, starts, strict=True):
        for layer in range(count - 1):
            values = torch_norm(named, layer, values @ named[f"w{layer}"] + named[f"b{layer}"])
            values = torch.relu(values) if "relu" in named else torch.tanh(values)
        if unit is not None:
            state = torch.where(begins[:, None], 0.0, state)
            state = torch.func.functional_call(cell, unit, (values, state))
            values = torch_norm(named, count - 1, state)
        found.append(values @ named[f"w{count - 1}"] + named[f"b{count - 1}"])
    return torch.stack(found)


@pytest.mark.parametrize("network", SHAPES)
def test_outputs_and_gradients_are_those_of_torch(network):
    flat, rng = random_network(network), np.random.default_rng(1)
    inputs = rng.standard_normal((9, 5, network.sizes[0]))
    grad_output = rng.standard_normal((9, 5, network.sizes[-1]))
    starts, first = rng.random((9, 5)) < 0.2, rng.standard_normal((5, network.hidden_size))
    parameters, x = (torch.tensor(array, requires_grad=True) for array in (flat, inputs))
    named, start = {}, 0
    for name, array in recurrent.views(network, flat).to_tensors().items():
        named[name] = parameters[start : start + array.size].reshape(array.shape)
        start += array.size
    expected = torch_outputs(named, x, torch.tensor(starts), torch.tensor(first))
    expected.backward(torch.tensor(grad_output))

    weights, gradient = recurrent.views(network, flat), np.zeros_like(flat)
    if network.recurrent:
        trace = weights.forward(inputs, starts, first)
    else:
        trace, grad_output = weights.forward(inputs.reshape(45, -1)), grad_output.reshape(45, -1)
    weights.backward(trace, grad_output, recurrent.views(network, gradient))
    wanted, outputs = parameters.grad.numpy(), expected.detach().numpy()
    np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())
    np.testing.assert_allclose(trace.outputs.reshape(outputs.shape), outputs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("network", SHAPES)
def test_gradients_at_the_inputs_are_those_of_torch(network):
    flat, rng = random_network(network), np.random.default_rng(1)
    inputs = rng.standard_normal((9, 5, network.sizes[0]))
    grad_output = rng.standard_normal((9, 5, network.sizes[-1]))
    first = rng.standard_normal((5, network.hidden_size)) if network.recurrent else None
    named = {name: torch.tensor(array) for name, array in recurrent.views(network, flat).to_tensors().items()}
    x, state = torch.tensor(inputs, requires_grad=True), torch.tensor(first if network.recurrent else 0.0)
    torch_outputs(named, x, torch.zeros(9, 5, dtype=torch.bool), state).backward(torch.tensor(grad_output))
    shape = (9, 5) if network.recurrent else (45,)
    rows, slopes = inputs.reshape(*shape, -1), grad_output.reshape(*shape, -1)
    found = recurrent.views(network, flat).input_gradient(rows, slopes, first)
    assert found.shape == rows.shape
    np.testing.assert_allclose(found.reshape(inputs.shape), x.grad.numpy(), rtol=0, atol=1e-10)


def test_layers_are_views_into_the_flat_vector():
    network = Network((2, 3, 1))
    flat = np.arange(13.0)  # (2 + 1) * 3 + (3 + 1) * 1
    assert network.parameters == 13
    first, _, last = network.layers(flat)
    np.testing.assert_array_equal(first.weight, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(first.bias, [6, 7, 8])
    np.testing.assert_array_equal(last.weight, [[9], [10], [11]])
    np.testing.assert_array_equal(last.bias, [12])
    last.bias[0] = -1
    assert flat[12] == -1
    np.testing.assert_array_equal(network.matrices(flat)[0], [[0, 1, 2], [3, 4, 5], [6, 7, 8]])


def test_tensors_have_forward_order_and_wire_names():
    network = Network((5, 8, 7, 2), recurrent=True, gaussian=True)
    flat = np.arange(network.parameters)
    named = recurrent.to_tensors(network, flat, "policy/g00")
    assert {name: array.shape for name, array in named.items()} == {
        "policy/g00/w0": (5, 8), "policy/g00/b0": (8,), "policy/g00/gru_x": (8, 21), "policy/g00/gru_h": (7, 21),
        "policy/g00/gru_bx": (21,), "policy/g00/gru_bh": (21,), "policy/g00/w1": (7, 2), "policy/g00/b1": (2,),
        "policy/g00/log_std": (2,),
    }  # fmt: skip
    np.testing.assert_array_equal(np.concatenate([array.ravel() for array in named.values()]), flat)
    assert network.parameters == 48 + 21 * 17 + 16 + 2
    assert network.hidden_size == 7
    named["policy/g00/log_std"][0] = -1
    assert flat[-2] == -1


@pytest.mark.parametrize("network", SHAPES)
def test_a_network_comes_back_from_its_tensors(network):
    flat = random_network(network)
    tensors = recurrent.to_tensors(network, flat, "policy/g01") | {"policy/g02/log_std": np.zeros(3)}
    back, copy = recurrent.from_tensors(tensors, "policy/g01")
    assert back == network
    np.testing.assert_array_equal(copy, flat)
    views = recurrent.weights_of(tensors, "policy/g01").to_tensors()
    assert [f"policy/g01/{name}" for name in views] == list(tensors)[:-1]
    copy[:] = 0
    assert (flat != 0).all()
    with pytest.raises(KeyError, match="critic/g01"):
        recurrent.from_tensors(tensors, "critic/g01")


def test_unit_starts_orthogonal_with_set_deviations():
    network = Network((10, 48, 32, 5), recurrent=True, gaussian=True)
    weights = recurrent.views(network, recurrent.initialise(network, np.random.default_rng(4), 0.01))
    below, _, cell, above = weights.layers
    for matrix, gain in ((below.weight, np.sqrt(2)), (cell.x, 1), (cell.h, 1), (above.weight, 0.01)):
        short = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
        np.testing.assert_allclose(short @ short.T, gain**2 * np.eye(len(short)), atol=1e-6)
    for bias in (below.bias, cell.bx, cell.bh, above.bias):
        assert not bias.any()
    np.testing.assert_array_equal(weights.log_std, np.float32(-0.5))


def test_layers_start_orthogonal_with_gain_of_activation():
    network = Network((10, 64, 64, 5))
    weights = recurrent.views(network, recurrent.initialise(network, np.random.default_rng(4), 0.01))
    linear = [layer for layer in weights.layers if isinstance(layer, Linear)]
    for layer, gain in zip(linear, (np.sqrt(2), np.sqrt(2), 0.01), strict=True):
        short = layer.weight if layer.weight.shape[0] <= layer.weight.shape[1] else layer.weight.T
        np.testing.assert_allclose(short @ short.T, gain**2 * np.eye(len(short)), atol=1e-6)
        assert layer.weight.dtype == np.float32
        assert not layer.bias.any()


def test_only_a_network_with_memory_has_a_state():
    network = Network((2, 3, 1))
    trace = recurrent.views(network, random_network(network)).forward(np.ones((4, 2)))
    assert network.hidden_size == 0
    with pytest.raises(ValueError, match="no hidden state"):
        _ = trace.hidden


@pytest.mark.parametrize("network", SHAPES)
def test_no_rows_give_no_outputs_and_no_gradient(network):
    flat = random_network(network)
    shape = (3, 0) if network.recurrent else (0,)
    weights, gradient = recurrent.views(network, flat), np.zeros_like(flat)
    trace = weights.forward(np.empty((*shape, network.sizes[0])))
    assert trace.outputs.shape == (*shape, network.sizes[-1])
    weights.backward(trace, trace.outputs, recurrent.views(network, gradient))
    assert not gradient.any()
    assert weights.input_gradient(np.empty((*shape, network.sizes[0])), trace.outputs).shape == (
        *shape,
        network.sizes[0],
    )
