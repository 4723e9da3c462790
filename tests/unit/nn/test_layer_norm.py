"""Layer norms: by hand, and in actors against torch. Gradients of whole networks are in test_recurrent.py."""

import numpy as np
import pytest
import torch

from marless.functions.environments.base import AgentClass, EnvSpec, Observation
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent
from marless.functions.nn.layers import LayerNorm, Relu
from marless.functions.nn.shape import Network
from marless.functions.policies import Policy

SPEC = EnvSpec(("a", "b", "c"), (AgentClass("x", (0, 2), 6, 5), AgentClass("y", (1,), 6, 5)), horizon=1)
SHARED, APART = Team(groups=(0, 1, 0), identity=True), Team(groups=(0, 1, 2))


def test_row_is_normalised_like_hand_computation():
    # Means 2 and 5, variances 1 and 0.
    values = np.array([[1.0, 3.0], [5.0, 5.0]])
    LayerNorm(np.array([2.0, 10.0]), np.array([0.5, 0.0])).forward(values, values)
    unit = 1 / np.sqrt(1 + 1e-5)
    np.testing.assert_allclose(values, [[0.5 - 2 * unit, 10 * unit], [0.5, 0.0]], rtol=1e-12)


def test_new_norm_is_neutral_and_layers_are_unchanged():
    plain, normed = Network((6, 16, 12, 5)), Network((6, 16, 12, 5), norm=LayerNorm)
    flat, other = (recurrent.initialise(network, np.random.default_rng(1), 0.01) for network in (plain, normed))
    assert normed.parameters == plain.parameters + 2 * (16 + 12)
    np.testing.assert_array_equal(other[: plain.parameters], flat)
    norms = [layer for layer in normed.layers(other) if isinstance(layer, LayerNorm)]
    for norm, width in zip(norms, (16, 12), strict=True):
        np.testing.assert_array_equal(norm.gain, np.ones(width))
        np.testing.assert_array_equal(norm.shift, np.zeros(width))


def drawn(team, network):
    rng, tensors = np.random.default_rng(0), {}
    for group in set(team.groups):
        flat = rng.standard_normal(network.parameters) / 2
        tensors |= recurrent.to_tensors(network, flat, f"policy/g{group:02d}")
    return tensors


def in_torch(tensors, inputs, steps):
    """The outputs of one network after so many steps with the same inputs."""
    named, state = {name: torch.tensor(array) for name, array in tensors.items()}, None

    def norm(values, layer):
        return torch.nn.functional.layer_norm(values, values.shape[-1:], named[f"gain{layer}"], named[f"shift{layer}"])

    for _ in range(steps):
        values, last = torch.tensor(inputs), 2
        if "gru_x" in named:
            last, width = 1, len(named["gru_h"])
            state = torch.zeros(len(values), width, dtype=torch.float64) if state is None else state
        for layer in range(last):
            values = torch.relu(norm(values @ named[f"w{layer}"] + named[f"b{layer}"], layer))
        if "gru_x" in named:
            cell = [named[name] for name in ("gru_x", "gru_h", "gru_bx", "gru_bh")]
            state = torch.gru_cell(values, state, cell[0].T, cell[1].T, *cell[2:])
            values = norm(state, 1)
        values = values @ named[f"w{last}"] + named[f"b{last}"]
    return values.numpy()


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("team", [SHARED, APART], ids=["shared with identity", "apart"])
def test_actors_act_by_normalised_networks(team, memory):
    tensors = drawn(team, Network((9 if team.identity else 6, 8, 7, 5), memory, activation=Relu, norm=LayerNorm))
    rng = np.random.default_rng(1)
    seen = Observation(tuple(rng.standard_normal((20, n, 6)) for n in (2, 1)), np.ones((20, 3), bool))
    policy, hidden = Policy(SPEC, team, tensors), None
    for _ in range(3):
        found, hidden = policy.outputs(seen, hidden)
    for index, kind in enumerate(SPEC.classes):
        for position, agent in enumerate(kind.agents):
            prefix = f"policy/g{team.groups[agent]:02d}/"
            own = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
            inputs = seen.values[index][:, position]
            if team.identity:
                inputs = np.concatenate([inputs, np.tile(np.eye(3)[agent], (20, 1))], axis=1)
            np.testing.assert_allclose(found[index][position], in_torch(own, inputs, 3), rtol=0, atol=1e-12)


@pytest.mark.parametrize("fault", ["a missing norm", "a norm of another width"])
def test_network_with_unfitting_norms_is_refused(fault):
    tensors = drawn(APART, Network((6, 8, 7, 5), norm=LayerNorm))
    if fault == "a missing norm":
        del tensors["policy/g01/gain1"]
    else:
        tensors["policy/g01/shift1"] = np.zeros(8)
    with pytest.raises(BadRequest, match="the policy of b is no network: its norms do not fit its hidden layers"):
        Policy(SPEC, APART, tensors)


def test_normalised_and_other_networks_are_not_mixed():
    tensors = drawn(APART, Network((6, 8, 7, 5), norm=LayerNorm))
    mixed = {name: array for name, array in tensors.items() if not name.startswith(("policy/g02/gain", "policy/g02/s"))}
    with pytest.raises(BadRequest, match="the policies of a and c are networks of different shapes"):
        Policy(SPEC, APART, mixed)
