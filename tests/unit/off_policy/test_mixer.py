"""The mixing network against a table worked out by hand, automatic differentiation, and its monotonicity."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marless.functions.algorithms.value.mixer import Mixer, mixer_of

TINY = Mixer(agents=2, state=1, embed=1, hyper=0)


def tiny():
    """Two agents, one hidden unit, a state of one number s, linear hypernetworks.

    W1 = (2s - 1, -3), b1 = s - 2, w2 = s - 5, b2 = 4 relu(s + 1) + 10.
    """
    flat = np.zeros(TINY.hypernetworks.parameters)
    tensors = TINY.hypernetworks.to_tensors(flat, "m")
    values = {
        "first_weight/w0": [[2, 0]],
        "first_weight/b0": [-1, -3],
        "first_bias/w0": [[1]],
        "first_bias/b0": [-2],
        "last_weight/w0": [[1]],
        "last_weight/b0": [-5],
        "last_bias/w0": [[1]],
        "last_bias/b0": [1],
        "last_bias/w1": [[4]],
        "last_bias/b1": [10],
    }
    for name, value in values.items():
        tensors[f"m/{name}"][...] = value  # views into flat
    return flat


# s, utilities, alive -> joint value, its gradient by the utilities
BY_HAND = [
    # |W1| = (1, 3), b1 = -1, |w2| = 4, b2 = 4·2 + 10 = 18. Inside 2 + 3 - 1 = 4 > 0: 4·4 + 18, gradients 4·(1, 3).
    (1.0, (2.0, 1.0), (True, True), 34.0, (4.0, 12.0)),
    # Inside 0 + 0 - 1 < 0: ELU e⁻¹ - 1, its gradient e⁻¹.
    (1.0, (0.0, 0.0), (True, True), 14 + 4 / math.e, (4 / math.e, 12 / math.e)),
    # Agent 1 is dead: 2 - 1 = 1, so 4·1 + 18, and no gradient for it.
    (1.0, (2.0, 50.0), (True, False), 22.0, (4.0, 0.0)),
    # s = -1: |W1| = (3, 3), b1 = -3, |w2| = 6, the hidden unit of b2 is off: 10. Inside 3 + 6 - 3 = 6.
    (-1.0, (1.0, 2.0), (True, True), 46.0, (18.0, 18.0)),
    # All agents are dead: inside b1 = -3, the value of the state alone.
    (-1.0, (1.0, 2.0), (False, False), 10 + 6 * (math.exp(-3) - 1), (0.0, 0.0)),
]


@pytest.mark.parametrize(("state", "utilities", "alive", "joint", "gradients"), BY_HAND)
def test_two_agents_mix_like_hand_computation(state, utilities, alive, joint, gradients):
    flat = tiny()
    got, mixed = TINY.forward(flat, np.array([[state]]), np.array([utilities]), np.array([alive]))
    np.testing.assert_allclose(got, [joint], rtol=1e-14)
    _, down = TINY.backward(flat, mixed, np.ones(1))
    np.testing.assert_allclose(down, [gradients], rtol=1e-14)


def torch_mix(mixer, tensors, state, utilities):
    def made(name):
        layers = sum(key.startswith(f"m/{name}/w") for key in tensors)
        values = state
        for k in range(layers):
            values = values @ tensors[f"m/{name}/w{k}"] + tensors[f"m/{name}/b{k}"]
            values = torch.relu(values) if k < layers - 1 else values
        return values

    weight = made("first_weight").abs().view(-1, mixer.agents, mixer.embed)
    hidden = torch.nn.functional.elu(torch.bmm(utilities[:, None], weight)[:, 0] + made("first_bias"))
    return (hidden * made("last_weight").abs()).sum(dim=1) + made("last_bias")[:, 0]


def random_case(mixer, seed, rows=37):
    rng = np.random.default_rng(seed)
    flat = rng.standard_normal(mixer.hypernetworks.parameters)
    state, utilities = rng.standard_normal((rows, mixer.state)), rng.standard_normal((rows, mixer.agents))
    return flat, state, utilities, rng.random((rows, mixer.agents)) < 0.7, rng.standard_normal(rows)


MIXERS = [Mixer(3, 5, 4, 6), Mixer(3, 5, 4, 0), Mixer(1, 1, 1, 1), Mixer(7, 20)]


@pytest.mark.parametrize("dying", [False, True])
@pytest.mark.parametrize("mixer", MIXERS, ids=str)
def test_values_and_gradients_are_those_of_automatic_differentiation(mixer, dying):
    flat, state, utilities, alive, error = random_case(mixer, 0)
    leaves = {
        name: torch.tensor(part, requires_grad=True) for name, part in mixer.hypernetworks.to_tensors(flat, "m").items()
    }
    u = torch.tensor(utilities, requires_grad=True)
    counted = u * torch.tensor(alive) if dying else u
    joint = torch_mix(mixer, leaves, torch.tensor(state), counted)
    (joint * torch.tensor(error)).sum().backward()

    got, mixed = mixer.forward(flat, state, utilities, alive if dying else None)
    gradient, down = mixer.backward(flat, mixed, error)
    np.testing.assert_allclose(got, joint.detach().numpy(), rtol=1e-10)
    np.testing.assert_allclose(down, u.grad.numpy(), rtol=1e-10, atol=1e-13)
    for name, part in mixer.hypernetworks.to_tensors(gradient, "m").items():
        expected = leaves[name].grad.numpy()
        np.testing.assert_allclose(part, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max(), err_msg=name)


@settings(max_examples=150, deadline=None)
@given(
    agents=st.integers(1, 5),
    state=st.integers(1, 6),
    embed=st.integers(1, 5),
    hyper=st.integers(0, 5),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_utility_lowers_the_joint_value(agents, state, embed, hyper, scale, seed):
    mixer = Mixer(agents, state, embed, hyper)
    flat, states, utilities, alive, _ = random_case(mixer, seed, rows=8)
    flat *= scale
    joint, mixed = mixer.forward(flat, states, utilities, alive)
    _, gradients = mixer.backward(flat, mixed, np.ones(8))
    assert (gradients >= 0).all()
    assert (gradients[~alive] == 0).all()
    higher, _ = mixer.forward(flat, states, utilities + np.random.default_rng(seed).random(utilities.shape), alive)
    assert (higher >= joint - 1e-12 * np.abs(joint).max()).all()


def test_output_of_dead_agent_network_is_ignored():
    mixer = MIXERS[0]
    flat, state, utilities, alive, error = random_case(mixer, 1)
    joint, mixed = mixer.forward(flat, state, utilities, alive)
    other, again = mixer.forward(flat, state, np.where(alive, utilities, np.nan), alive)
    np.testing.assert_array_equal(joint, other)
    for one, two in zip(mixer.backward(flat, mixed, error), mixer.backward(flat, again, error), strict=True):
        np.testing.assert_array_equal(one, two)


def test_large_numbers_stay_finite():
    mixer = MIXERS[0]
    flat, state, utilities, alive, error = random_case(mixer, 2)
    flat, state, utilities = (1e3 * array.astype(np.float32) for array in (flat, state, utilities))
    with np.errstate(over="raise", invalid="raise"):
        joint, mixed = mixer.forward(flat, state, utilities, alive)
        gradient, down = mixer.backward(flat, mixed, error.astype(np.float32))
    assert all(np.isfinite(array).all() for array in (joint, gradient, down))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pass_keeps_the_type_of_its_inputs(dtype):
    mixer = MIXERS[0]
    flat, state, utilities, alive, error = (
        array if array.dtype == bool else array.astype(dtype) for array in random_case(mixer, 3)
    )
    joint, mixed = mixer.forward(flat, state, utilities, alive)
    assert {array.dtype for array in (joint, *mixer.backward(flat, mixed, error))} == {np.dtype(dtype)}


def test_a_pass_changes_none_of_its_inputs():
    mixer = MIXERS[0]
    case = random_case(mixer, 4)
    before = [array.copy() for array in case]
    _, mixed = mixer.forward(*case[:4])
    mixer.backward(case[0], mixed, case[4])
    mixer.backward(case[0], mixed, case[4])
    for array, kept in zip(case, before, strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.parametrize("mixer", MIXERS, ids=str)
def test_named_tensors_hold_the_whole_network(mixer):
    flat = mixer.hypernetworks.initialise(np.random.default_rng(0))
    named = mixer.hypernetworks.to_tensors(flat, "mixer/s0")
    assert {name.split("/")[2] for name in named} == {*Mixer.names}
    assert sum(tensor.size for tensor in named.values()) == mixer.hypernetworks.parameters == flat.size
    found, again = mixer_of(named, "mixer/s0")
    assert found == mixer
    np.testing.assert_array_equal(again, flat)
    with pytest.raises(KeyError, match="no network named mixer/s1/first_weight"):
        mixer_of(named, "mixer/s1")


def test_network_starts_uniform_by_root_of_inputs():
    mixer = Mixer(3, 100, 32, 64)
    flat = mixer.hypernetworks.initialise(np.random.default_rng(1))
    assert flat.dtype == np.float32
    named = mixer.hypernetworks.to_tensors(flat, "m")
    for name, bound in {"first_weight/w0": 0.1, "first_weight/w1": 0.125, "last_bias/b0": 0.1}.items():
        values = named[f"m/{name}"]
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.9 * bound  # at least 32 draws: missed with probability 0.9³² at most
    # Of a uniform number within ±b the deviation is b/√3. 6,400 draws estimate it to about 1 %.
    assert named["m/first_weight/w0"].std() == pytest.approx(0.1 / math.sqrt(3), rel=0.05)
