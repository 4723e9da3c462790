"""Differences of low rank to frozen networks: their gradients, their range, and their first state."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from marless.functions.algorithms.adapters.descent import AdaptedDescent, Adapter, merged
from marless.functions.algorithms.adapters.state import (
    first_state,
    frozen_networks,
    whole_networks,
    without_whole_networks,
)
from marless.functions.algorithms.engine import Moments, OptimiserSettings
from marless.functions.algorithms.engines.numpy_engine import NumpyEngine
from marless.functions.algorithms.engines.torch_engine import engine as torch_engine
from marless.functions.algorithms.registry import algorithm
from marless.functions.algorithms.stage import within
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent
from marless.functions.nn.layers import LayerNorm
from marless.functions.nn.shape import Network

ENGINES = {"numpy": NumpyEngine(), "torch": torch_engine("cpu", "mlp")}
ROWS = 7


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def base_of(network):
    """The tensors of a frozen critic with random parameters, in double precision."""
    tensors = recurrent.views(network, drawn(network.parameters)).to_tensors()
    return {f"base/critic/g00/{name}": array for name, array in tensors.items()}


def state_of(base, rank):
    new = {name.removeprefix("base/"): array for name, array in base.items()}
    return first_state({**new, "critic_optimiser/g00/steps": np.zeros(1)}, base, rank, seed=5)


def with_noise(tensors):
    """All of them moved by as much as a weight."""
    return {name: array + drawn(*array.shape, seed=9) for name, array in tensors.items()}


def perceptron(values, tensors):
    for layer in range(2):
        values = values @ tensors[f"w{layer}"] + tensors[f"b{layer}"]
        norm = tensors[f"gain{layer}"], tensors[f"shift{layer}"]
        values = torch.tanh(torch.nn.functional.layer_norm(values, values.shape[-1:], *norm))
    return values @ tensors["w2"] + tensors["b2"]


@pytest.mark.parametrize("name", ENGINES)
def test_gradients_are_those_of_automatic_differentiation(name):
    base = base_of(Network((6, 5, 4, 3), norm=LayerNorm))
    frozen = within(base, "base/critic/g00")
    difference = with_noise(within(state_of(base, rank=2), "critic_adapter/g00"))
    whole = {f"critic/{key}": array for key, array in merged(frozen, difference).items()}
    of_network = ENGINES[name].loss_gradient(whole, "critic")
    adapter = Adapter(frozen, difference, list(of_network.weights.to_tensors()))
    inputs, grad_output = drawn(ROWS, 6, seed=1), drawn(ROWS, 3, seed=2)
    gradient = adapter.gradient(of_network.at(of_network.weights.forward(inputs), grad_output))

    leaves = {key: torch.tensor(array, requires_grad=True) for key, array in difference.items()}
    matrices = {key: torch.tensor(frozen[key]) + leaves[f"{key}/a"] @ leaves[f"{key}/b"] for key in ("w0", "w1", "w2")}
    (perceptron(torch.tensor(inputs), {**leaves, **matrices}) * torch.tensor(grad_output)).sum().backward()
    assert {*leaves} == {*adapter.tensors}
    expected = np.concatenate([leaves[key].grad.numpy().ravel() for key in adapter.tensors])
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("inputs", "outputs"), [(5, 3), (3, 5)])
@pytest.mark.parametrize("rank", [1, 2, 3, 8])
def test_low_rank_difference_is_nearest_of_its_rank(name, inputs, outputs, rank):
    """By Eckart and Young (1936) the nearest matrix of a rank leaves the smaller singular values."""
    base = base_of(Network((inputs, outputs)))
    state = state_of(base, rank)
    frozen, difference = within(base, "base/critic/g00"), within(state, "critic_adapter/g00")
    whole = {f"critic/{key}": array for key, array in merged(frozen, difference).items()}
    goal = drawn(inputs, outputs, seed=3)
    zeros = np.zeros(sum(array.size for array in difference.values()))
    settings = OptimiserSettings(lr=0.02, epsilon=1e-8, max_grad_norm=1e9)
    network = AdaptedDescent(
        ENGINES[name].loss_gradient(whole, "critic"), frozen, difference, settings, Moments(zeros, zeros, 0)
    )
    for _ in range(3000):  # half the squared distance has the distance as its gradient
        error = network.to_tensors()["w0"] - frozen["w0"] - goal
        network.apply(np.concatenate([error.ravel(), np.zeros(outputs)]))
    remainder = np.linalg.svd(goal, compute_uv=False)[rank:]
    assert np.linalg.norm(error) == pytest.approx(np.linalg.norm(remainder), abs=1e-3)
    np.testing.assert_array_equal(network.to_tensors()["b0"], frozen["b0"])


def test_first_difference_is_zero_with_drawn_factors():
    base = base_of(Network((400, 300, 2)))
    state = state_of(base, rank=100)
    assert state["critic_adapter/g00/w0/a"].shape == (400, 100)
    assert np.std(state["critic_adapter/g00/w0/a"]) == pytest.approx(1 / 20, rel=0.03)
    assert state["critic_adapter/g00/w1/b"].shape == (2, 2)
    for name, array in whole_networks({**base, **state}).items():
        np.testing.assert_array_equal(array, base[f"base/{name}"])
    # Both factors of every matrix, and the biases.
    size = 400 * 100 + 100 * 300 + 300 + 300 * 2 + 2 * 2 + 2
    assert state["critic_optimiser/g00/first"].shape == (size,)


def test_group_starts_from_base_of_its_first_member():
    tensors = {f"policy/g0{group}/w0": np.full((2, 2), group) for group in (0, 1)} | {"normaliser/g01": np.ones(3)}
    frozen = frozen_networks(tensors, Team(groups=(0, 1, 0)), Team(groups=(0, 1, 1)))
    assert {name: array.flat[0] for name, array in frozen.items()} == {
        "base/policy/g00/w0": 0,
        "base/policy/g01/w0": 1,
        "base/normaliser/g01": 1,
    }
    with pytest.raises(BadRequest, match="that run has 3 agents and this one 2"):
        frozen_networks(tensors, Team(groups=(0, 1, 0)), Team(groups=(0, 1)))


def test_what_changes_beside_training_belongs_to_the_difference():
    before = dict.fromkeys(("policy_adapter/g00/seen", "policy_adapter/g00/w0/a", "critic_adapter/g00/b0"), np.zeros(3))
    outcome = dict.fromkeys(("policy/g00/seen", "policy/g00/w0", "critic/g00/w0", "target/g00"), np.ones(3))
    kept = without_whole_networks(outcome, before)
    assert {*kept} == {"policy/g00/seen", "policy_adapter/g00/seen", "policy/g00/w0", "target/g00"}


@pytest.mark.parametrize("name", ["ippo", "mappo", "happo"])
def test_stages_exchange_differences_and_publish_whole_policies(name):
    spec, adapted = algorithm(name), algorithm(name).adapted()
    for before, stage in zip(spec.stages, adapted.stages, strict=True):
        assert ("policy" in stage.writes) == ("policy" in before.writes)
        assert {part.removesuffix("_adapter") for part in stage.writes} == {*before.writes}
        assert {part.removesuffix("_adapter") for part in stage.reads} == {*before.reads}
        assert not {"policy", "critic"} & {*stage.reads}
    assert {*adapted.parts} == {*spec.parts} - {"critic"} | {"policy_adapter", "critic_adapter"}


@pytest.mark.parametrize("rank", [4, 8])
@pytest.mark.parametrize("widths", list(pairwise([18, 64, 64, 5])))
def test_rank_has_as_many_numbers_as_factors(widths, rank):
    inputs, outputs = widths
    state, width = state_of(base_of(Network(widths)), rank), min(rank, *widths)
    assert state["critic_optimiser/g00/first"].size == width * (inputs + outputs) + outputs
