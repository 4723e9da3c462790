"""QPLEX's mixing network against a table worked out by hand, and that the best joint action is made of the agents'."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marless.functions.algorithms.value.duelling_mixer import DuellingMixer, duelling_mixer_of

TINY = DuellingMixer(agents=2, state=1, actions=2, heads=1, hyper=0)


def tiny():
    """Two agents, one head, a state of one number s, a joint action of two numbers x.

    w = |s - 3|, |2s + 1|. B = (s, 4). Key = |s - 5|. Agent = sigmoid(0) = 1/2, twice. Action = sigmoid(log 3 x_i).
    """
    flat = np.zeros(TINY.hypernetworks.parameters)
    tensors = TINY.hypernetworks.to_tensors(flat, "m")
    values = {
        "weight/w0": [[1, 2]],
        "weight/b0": [-3, 1],
        "bias/w0": [[1, 0]],
        "bias/b0": [0, 4],
        "key/w0": [[1]],
        "key/b0": [-5],
        "action/w0": [[0, 0], [np.log(3), 0], [0, np.log(3)]],
    }
    for name, value in values.items():
        tensors[f"m/{name}"][...] = value  # views into flat
    return flat


# s, utilities, alive, advantages, x -> joint value, its gradient by the utilities
BY_HAND = [
    # w = (2, 3), b = (1, 4), key = 4. Best actions: 2·5 + 1 + 3·7 + 4.
    (1.0, (5.0, 7.0), (1, 1), (0.0, 0.0), (0.0, 0.0), 36.0, (2.0, 3.0)),
    # λ = 4·½·(½, ¾) = (1, 3/2): 36 + 0·2·(-1) + ½·3·(-2).
    (1.0, (5.0, 7.0), (1, 1), (-1.0, -2.0), (0.0, 1.0), 33.0, (2.0, 3.0)),
    # Agent 1 is dead: its bias is the state's.
    (1.0, (5.0, 7.0), (1, 0), (-1.0, -2.0), (0.0, 0.0), 15.0, (2.0, 0.0)),
    # s = 5: w = (2, 11), λ = 0: 2·1 + 5 + 11·2 + 4, less the advantages 2·(-3) + 11·(-1).
    (5.0, (1.0, 2.0), (1, 1), (-3.0, -1.0), (1.0, 1.0), 33.0 + 17.0, (2.0, 11.0)),
]


@pytest.mark.parametrize(("state", "utilities", "alive", "advantages", "actions", "joint", "gradients"), BY_HAND)
def test_two_agents_mix_by_hand(state, utilities, alive, advantages, actions, joint, gradients):
    flat, inputs = tiny(), (np.array([row]) for row in ([state], utilities, alive, advantages, actions))
    state, utilities, alive, advantages, actions = inputs
    got, trace = TINY.forward(flat, state, utilities, alive.astype(bool), advantages, actions)
    np.testing.assert_allclose(got, [joint], rtol=1e-8)  # weights are 1e-10 away from 0
    _, down = TINY.backward(flat, trace, np.ones(1))
    np.testing.assert_allclose(down, [gradients], rtol=1e-8)


@settings(max_examples=150, deadline=None)
@given(
    agents=st.integers(1, 3),
    heads=st.integers(1, 4),
    hyper=st.integers(0, 5),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_best_joint_action_consists_of_best_actions(agents, heads, hyper, scale, seed):
    """Individual-Global-Max, for any weights: the joint value is highest where every agent takes its best action."""
    rng, choices = np.random.default_rng(seed), 3
    mixer = DuellingMixer(agents, 4, agents * choices, heads, hyper)
    flat = scale * rng.standard_normal(mixer.hypernetworks.parameters)
    utilities = rng.standard_normal((agents, choices))
    joint = np.array(list(itertools.product(range(choices), repeat=agents)))
    taken = np.take_along_axis(utilities, joint.T, axis=1).T
    state = np.tile(rng.standard_normal(4), (len(joint), 1))
    actions = np.eye(choices)[joint].reshape(len(joint), -1)
    alive = np.ones(taken.shape, bool)
    values, trace = mixer.forward(flat, state, taken, alive, taken - utilities.max(axis=1), actions)
    best = values[(joint == utilities.argmax(axis=1)).all(axis=1)]
    assert (values <= best + 1e-9 * np.abs(best)).all()  # equal where λ underflows
    assert (mixer.backward(flat, trace, np.ones(len(joint)))[1] > 0).all()


def test_named_tensors_hold_the_whole_network():
    mixer = DuellingMixer(3, 5, 7, 2, 6)
    flat = mixer.hypernetworks.initialise(np.random.default_rng(0))
    named = mixer.hypernetworks.to_tensors(flat, "mixer/g00")
    assert {name.split("/")[2] for name in named} == {*DuellingMixer.names}
    found, again = duelling_mixer_of(named, "mixer/g00")
    assert found == mixer
    np.testing.assert_array_equal(again, flat)


def test_large_numbers_stay_finite():
    mixer, rng = DuellingMixer(3, 5, 7, 2, 6), np.random.default_rng(1)
    flat = 1e3 * rng.standard_normal(mixer.hypernetworks.parameters).astype(np.float32)
    state, actions = (1e3 * rng.standard_normal((9, wide)).astype(np.float32) for wide in (5, 7))
    utilities, advantages = (1e3 * rng.standard_normal((9, 3)).astype(np.float32) for _ in range(2))
    with np.errstate(over="raise", invalid="raise"):
        joint, trace = mixer.forward(flat, state, utilities, np.ones((9, 3), bool), -np.abs(advantages), actions)
        gradient, down = mixer.backward(flat, trace, np.ones(9, np.float32))
    assert all(np.isfinite(array).all() and array.dtype == np.float32 for array in (joint, gradient, down))
