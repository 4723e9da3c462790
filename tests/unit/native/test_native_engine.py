"""Perceptrons in C equal numpy, and refuse arrays that C would misread."""

from ctypes import byref, create_string_buffer

import numpy as np
import pytest
import torch
from built_kernels import needs_kernels
from described_entities import described, without_some
from engine_rounds import COMPARABLE, SETTINGS, require_alike, trained
from torch_perceptrons import expected

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.functions.errors import MissingExtra
from marless.functions.native.interface import EntitiesFields
from marless.functions.native.kernels import kernels
from marless.functions.nn.discrete import OneChoice
from marless.functions.nn.entities.attention import attention_over
from marless.functions.nn.entities.forward_pass import HEADS
from marless.functions.nn.layers import LayerNorm, Relu, Tanh
from marless.functions.nn.losses import ClippedPolicyLoss, ClippedValueLoss
from marless.functions.nn.native.calls import NativeOptimiser, NativePerceptron, covers
from marless.functions.nn.native.losses import native_loss
from marless.functions.nn.native.weights import PerceptronWeights
from marless.functions.nn.shape import Network
from marless.runs.inputs.required_packages import require_packages

pytestmark = needs_kernels

NETWORK = Network((4, 6, 3))


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_round_is_the_same_as_with_numpy(name, recurrent, layer_norm):
    settings = {"recurrent": recurrent, "layer_norm": layer_norm, **COMPARABLE.get(name, {})}
    plain, other = (trained(name, np.float32, engine=engine, **settings) for engine in ("numpy", "native"))
    require_alike(plain, other, 1e-5)
    for key, metric in plain.metrics.items():
        rtol = 1e-3 if key.startswith("curvature/") else 1e-4  # eigenvalues from differences of gradients
        np.testing.assert_allclose(other.metrics[key], metric, rtol=rtol, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("rows", [1, 7, 300])
@pytest.mark.parametrize("activation", [Tanh, Relu])
@pytest.mark.parametrize(
    ("sizes", "norm"), [((4, 1), None), ((7, 15, 16, 17, 1), None), ((18, 64, 33, 5), LayerNorm), ((3, 130, 2), None)]
)
def test_outputs_and_gradients_are_those_of_torch(sizes, norm, activation, rows):
    network, rng = Network(sizes, activation=activation, norm=norm), np.random.default_rng(1)
    require_torch_s(network, rng.standard_normal((rows, sizes[0])), rng)


# Tokens of one, several and very many entities. Their vectors are whole or not.
@pytest.mark.parametrize("rows", [1, 7, 300])
@pytest.mark.parametrize(
    ("entities", "sizes"),
    [
        (described(5, (3, 2, True), (5, 1, False)), (32, 1)),
        (described(4, (3, 3, True), (4, 2, True)), (64, 20, 3)),
        (described(1, (7, 3, True)), (128, 33, 5)),
        (described(2), (64, 7, 2)),
        (described(3, (30, 1, False), (33, 1, True)), (96, 3)),
        (described(3, (2, 2, True), (5, 1, True), first_action=2), (96, 12, 51)),
        (described(2, (33, 1, True), first_action=0), (32, 9, 17)),
    ],
)
def test_attention_and_its_gradients_are_those_of_torch(entities, sizes, rows):
    front, rng = attention_over(entities), np.random.default_rng(1)
    network = Network((entities.size, *sizes), activation=Tanh, norm=LayerNorm, front=front)
    require_torch_s(network, without_some(entities, rng.standard_normal((rows, entities.size)), rng), rng)


def require_torch_s(network, inputs, rng):
    rows, inputs = len(inputs), inputs.astype(np.float32)
    flat = (rng.standard_normal(network.parameters) / 3).astype(np.float32)
    grad_output = rng.standard_normal((rows, network.outputs)).astype(np.float32)
    perceptron, gradient = NativePerceptron(network), np.full(network.parameters, np.nan, np.float32)
    outputs = perceptron.forward(flat, inputs)
    np.testing.assert_array_equal(NativePerceptron(network, trains=False).forward(flat, inputs), outputs)
    perceptron.backward(grad_output, gradient)
    exact_outputs, exact = expected(network, *(each.astype(np.float64) for each in (flat, inputs, grad_output)))
    np.testing.assert_allclose(outputs, exact_outputs, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, exact, rtol=1e-5, atol=1e-6 * rows)


def test_described_observation_order_changes_no_byte():
    rng, blocks = np.random.default_rng(2), ((3, 2, True), (4, 1, False))
    order = np.array([1, 4, 12, 3, 0, 11, 2, 9, 5, 10, 6, 8, 7])  # the own numbers are in their order
    networks = [
        Network((13, 32, 9, 2), front=attention_over(described(3, *blocks, order=columns))) for columns in (None, order)
    ]
    rows = without_some(networks[0].front.entities, rng.standard_normal((50, 13)), rng).astype(np.float32)
    moved = np.empty_like(rows)
    moved[:, order] = rows
    flat = rng.standard_normal(networks[0].parameters).astype(np.float32)
    grad_output, gradients = rng.standard_normal((50, 2)).astype(np.float32), np.zeros((2, len(flat)), np.float32)
    outputs = []
    for network, inputs, gradient in zip(networks, (rows, moved), gradients, strict=True):
        perceptron = NativePerceptron(network)
        outputs.append(perceptron.forward(flat, inputs))
        perceptron.backward(grad_output, gradient)
    assert outputs[0].tobytes() == outputs[1].tobytes() and gradients[0].tobytes() == gradients[1].tobytes()


def test_network_is_refused_before_kernels():
    """Too many layers or tokens, or none, or attention of another width or number of heads."""
    fields, widths = create_string_buffer(kernels().network_bytes()), np.full(20, 32, np.int64)

    def is_computed(layers, *sizes):
        entities = byref(EntitiesFields(32, *sizes)) if sizes else None
        return kernels().network_numbers(fields, layers, widths.ctypes.data, 0, 0, entities, 1, 0) > 0

    assert is_computed(16) and not is_computed(17) and not is_computed(0) and not is_computed(-1)
    assert is_computed(2, 4, 16, HEADS) and not is_computed(1, 4, 16, HEADS) and not is_computed(2, 4, 32, HEADS)
    assert is_computed(2, 4, 16, HEADS, 9, 2, 2) and not is_computed(2, 4, 16, HEADS, 9, 3, 2)
    assert not is_computed(2, 0, 16, HEADS) and not is_computed(2, 257, 16, HEADS) and not is_computed(2, 4, 16, 4)


def test_steps_equal_torch_adam_with_clipped_gradient():
    rng = np.random.default_rng(3)
    parameters = rng.standard_normal(37).astype(np.float32)
    ours = NativeOptimiser(parameters.copy(), np.zeros_like(parameters), np.zeros_like(parameters), 0, 1e-2, 1e-5, 0.5)
    theirs = torch.nn.Parameter(torch.tensor(parameters, dtype=torch.float64))
    optimiser = torch.optim.Adam([theirs], lr=1e-2, eps=1e-5)
    for scale in (3.0, 1e-3, 0.2):
        gradient = (scale * rng.standard_normal(37)).astype(np.float32)
        theirs.grad = torch.tensor(gradient, dtype=torch.float64)
        norm = float(torch.nn.utils.clip_grad_norm_([theirs], 0.5))
        optimiser.step()
        assert ours.step(gradient) == pytest.approx(norm, rel=1e-6)
    np.testing.assert_allclose(ours.parameters, theirs.detach().numpy(), rtol=0, atol=1e-6)


def test_an_array_that_c_would_misread_is_refused():
    perceptron, flat = NativePerceptron(NETWORK), np.zeros(NETWORK.parameters, np.float32)
    rows = np.zeros((8, 4), np.float32)
    for parameters, inputs in (
        (flat.astype(np.float64), rows),
        (flat[:-1], rows),
        (flat, rows.astype(np.float16)),
        (flat, np.zeros((8, 5), np.float32)),
        (flat, np.asfortranarray(rows)),
    ):
        with pytest.raises(ValueError, match="in one piece"):
            perceptron.forward(parameters, inputs)


def test_inference_network_has_same_outputs_without_gradient():
    rng = np.random.default_rng(4)
    flat, rows = (rng.standard_normal(shape, np.float32) for shape in (NETWORK.parameters, (203, 4)))
    acting = NativePerceptron(NETWORK, trains=False)
    np.testing.assert_array_equal(acting.forward(flat, rows), NativePerceptron(NETWORK).forward(flat, rows))
    with pytest.raises(ValueError, match="kept for one backwards"):
        acting.backward(np.zeros((203, 3), np.float32), flat)
    optimiser = NativeOptimiser(flat, flat.copy(), flat.copy(), 0, 1e-3, 1e-5, 1.0)
    loss = native_loss(ClippedPolicyLoss(OneChoice(3), ACTIONS, ROWS, ROWS, None, 0.2, 0.01))
    with pytest.raises(ValueError, match="computes outputs alone"):
        acting.train(optimiser, rows[:5], np.arange(5), [0, 5], loss)


ROWS = np.zeros(5, np.float32)
ACTIONS = np.array([0, 1, 2, 0, 1])


@pytest.mark.parametrize(
    ("order", "bounds", "actions", "advantage"),
    [
        ([0, 5], [0, 2], ACTIONS, ROWS),
        ([-1, 0], [0, 2], ACTIONS, ROWS),
        ([0, 1], [0, 3], ACTIONS, ROWS),
        ([0, 1], [0, 0, 2], ACTIONS, ROWS),
        ([0, 1], [0, 2], ACTIONS + 1, ROWS),
        ([0, 1], [0, 2], ACTIONS[:4], ROWS),
        ([0, 1], [0, 2], ACTIONS, ROWS.astype(np.float64)),
        ([0, 1], [0, 2], ACTIONS, ROWS[:4]),
    ],
)
def test_rows_that_there_are_not_are_refused(order, bounds, actions, advantage):
    flat = np.zeros(NETWORK.parameters, np.float32)
    optimiser = NativeOptimiser(flat, flat.copy(), flat.copy(), 0, 1e-3, 1e-5, 1.0)
    loss = native_loss(ClippedPolicyLoss(OneChoice(3), actions, ROWS, advantage, None, 0.2, 0.01))
    with pytest.raises(ValueError, match=r"in one piece|do not part|an index is not"):
        NativePerceptron(NETWORK).train(optimiser, np.zeros((5, 4), np.float32), np.array(order), bounds, loss)


# Of two rows of sixteen lanes, of whole blocks of lanes, and beyond.
@pytest.mark.parametrize("actions", [15, 16, 17, 31, 32, 33, 48, 64, 100])
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_policy_loss_of_many_actions_equals_numpy(actions, rows):
    network, rng = Network((5, 7, actions)), np.random.default_rng(actions)
    flat, inputs = (rng.standard_normal(shape).astype(np.float32) for shape in (network.parameters, (rows, 5)))
    taken, old, advantage = rng.integers(actions, size=rows), *rng.standard_normal((2, rows)).astype(np.float32)
    loss = ClippedPolicyLoss(
        OneChoice(actions), taken, old - 3, advantage, rng.random((rows, actions)) < 0.7, 0.2, 0.01
    )
    optimiser = NativeOptimiser(flat.copy(), np.zeros_like(flat), np.zeros_like(flat), 0, 1e-3, 1e-5, 1e9)
    training = NativePerceptron(network).train(optimiser, inputs, np.arange(rows), [0, rows], native_loss(loss))
    expected_loss = loss(NativePerceptron(network).forward(flat, inputs), None, np.arange(rows))
    _, gradient = expected(network, *(each.astype(np.float64) for each in (flat, inputs, expected_loss.grad_output)))
    np.testing.assert_allclose(optimiser.gradient, gradient, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(training.losses, [expected_loss.surrogate], rtol=1e-5)
    for metric, name in zip(training.metrics, expected_loss.rows, strict=True):
        np.testing.assert_allclose(metric, expected_loss.rows[name], rtol=1e-4, atol=1e-5)


def test_nan_value_is_nan_in_loss():
    for place in range(2):  # an old value, a target
        arrays = np.ones((2, 5), np.float32)
        arrays[place, 2] = np.nan
        loss = ClippedValueLoss(*arrays, 0.2, 10.0)
        network = Network((4, 1))
        flat = np.zeros(network.parameters, np.float32)
        optimiser = NativeOptimiser(flat, flat.copy(), flat.copy(), 0, 1e-3, 1e-5, 1.0)
        training = NativePerceptron(network).train(
            optimiser, np.ones((5, 4), np.float32), np.arange(5), [0, 2, 5], native_loss(loss)
        )
        assert np.isfinite(training.losses[0]) and np.isnan(training.losses[1])
        assert np.isnan(loss(np.zeros((3, 1), np.float32), None, np.arange(2, 5)).loss)


def test_a_critic_has_one_output():
    flat = np.zeros(NETWORK.parameters, np.float32)
    optimiser = NativeOptimiser(flat, flat.copy(), flat.copy(), 0, 1e-3, 1e-5, 1.0)
    loss = native_loss(ClippedValueLoss(ROWS, ROWS, 0.2, 10.0))
    with pytest.raises(ValueError, match="a critic has one output, not 3"):
        NativePerceptron(NETWORK).train(optimiser, np.zeros((5, 4), np.float32), np.arange(5), [0, 5], loss)


def test_double_or_deep_recurrent_networks_use_numpy():
    assert covers(NETWORK, np.zeros(1, np.float32))
    assert not covers(NETWORK, np.zeros(1))
    assert not covers(Network((4, 6, 3), recurrent=True), np.zeros(1, np.float32))
    assert not covers(Network((2,) * 18), np.zeros(1, np.float32))


def test_a_folder_without_kernels_is_named(tmp_path):
    with pytest.raises(MissingExtra, match=r"no kernels for this processor that .*; install a C compiler"):
        kernels(tmp_path)


def test_native_is_refused_on_gpu_but_not_aws():
    with pytest.raises(ConfigError, match=r"native does not compute on cuda; set algorithm.engine=torch"):
        load(None, ["algorithm.engine=native", "algorithm.device=cuda"])
    require_packages(load(None, ["algorithm.engine=native"]), functions_here=False)


def test_a_batch_may_be_without_rows():
    weights = PerceptronWeights(NETWORK, np.zeros(NETWORK.parameters, np.float32))
    assert weights.forward(np.zeros((2, 0, 4))).outputs.shape == (2, 0, 3)
    assert weights.forward(np.zeros((0, 4))).outputs.shape == (0, 3)


def test_gradient_of_earlier_forward_pass_is_its_own():
    network, rng = Network((4, 6, 3)), np.random.default_rng(4)
    weights = PerceptronWeights(network, rng.standard_normal(network.parameters).astype(np.float32))
    inputs, others, grad_output = (rng.standard_normal((5, width)).astype(np.float32) for width in (4, 4, 3))
    gradients = np.zeros((2, network.parameters), np.float32)
    for gradient, follows in zip(gradients, (False, True), strict=True):
        trace = weights.forward(inputs)
        if follows:
            weights.forward(np.concatenate([others, others]))
        weights.backward(trace, grad_output, gradient)
    assert gradients[0].any() and np.array_equal(*gradients)
