"""The actors' calls compute the same as numpy and torch for any arrays and worlds, or raise."""

import numpy as np
import pytest
from built_kernels import needs_kernels
from fuzzed_arrays import arrays, fuzzed, is_called, networks, numbers
from hypothesis import given
from hypothesis import strategies as st
from torch_perceptrons import expected

from marless.functions.environments.mpe import exact_world, native_world
from marless.functions.environments.mpe.exact_world import ExactWorld
from marless.functions.environments.mpe.native_world import NativeWorld
from marless.functions.environments.mpe.world import Body
from marless.functions.nn.layers import forward
from marless.functions.nn.native.acting import NativeChoice, NativeNetworks, native_networks

pytestmark = needs_kernels

SIZES = st.integers(0, 20)


@fuzzed
@given(st.data(), networks(), st.integers(1, 3), st.integers(1, 3), st.integers(0, 120))
def test_agent_outputs_are_refused_or_well_shaped(data, network, agents, blocks, envs):
    stack, inputs = arrays(data.draw, (agents, network.parameters), (agents, blocks, envs, network.sizes[0]))
    acting = is_called(NativeNetworks, network, [stack], [], None)
    outputs = acting and is_called(acting.outputs, inputs, None)
    assert outputs is None or outputs[0].shape == (*inputs.shape[:-1], network.outputs)


@fuzzed
@given(st.data(), networks(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 40))
def test_outputs_of_agents_are_those_of_torch(data, network, agents, blocks, envs):
    stack = numbers(data.draw, (agents, network.parameters), is_finite=True) / 3
    inputs = numbers(data.draw, (agents, blocks, envs, network.sizes[0]), is_finite=True)
    outputs, _ = NativeNetworks(network, [stack], [], None).outputs(inputs, None)
    for agent in range(agents):
        rows = inputs[agent].reshape(-1, network.sizes[0]).astype(np.float64)
        exact, _ = expected(network, stack[agent].astype(np.float64), rows, np.zeros((len(rows), network.outputs)))
        np.testing.assert_allclose(outputs[agent].reshape(exact.shape), exact, rtol=1e-4, atol=1e-4)


@fuzzed
@given(st.data(), networks(), networks(), st.integers(1, 3))
def test_foreign_layers_are_refused_or_equal_numpy(data, network, other, agents):
    flats = numbers(data.draw, (agents, network.parameters), is_finite=True) / 3
    of_agents = [network.layers(flat) for flat in flats]
    layers = [
        type(of_one[0])(*map(_stacked, *(layer.arrays for layer in of_one))) for of_one in zip(*of_agents, strict=True)
    ]
    acting = is_called(native_networks, data.draw(st.sampled_from([network, other])), layers, [], None)
    inputs = numbers(data.draw, (agents, 2, 5, network.sizes[0]), is_finite=True)
    outputs = acting and is_called(acting.outputs, inputs, None)
    if outputs is not None and acting._network == network:
        np.testing.assert_allclose(outputs[0], forward(layers, inputs, None)[0], rtol=1e-4, atol=1e-4)


def _stacked(*parameters):
    rows = np.stack(parameters)
    return rows[:, None] if rows.ndim > 2 else rows[:, None, None]


@fuzzed
@given(st.data(), SIZES, SIZES, st.integers(0, 40))
def test_choice_is_refused_or_existing(data, agents, envs, actions):
    shape = agents, envs
    logits, uniforms = arrays(data.draw, (*shape, actions), shape)
    with np.errstate(all="ignore"):
        drawn = is_called(NativeChoice(actions).draw, logits, None, uniforms)
    if drawn is not None and logits.size:
        choices, log_p = drawn
        assert choices.shape == log_p.shape == uniforms.shape
        assert ((choices >= 0) & (choices < actions)).all()


@fuzzed
@given(st.data(), SIZES, st.integers(1, 20), st.integers(1, 40))
def test_choice_log_probability_is_that_of_softmax(data, agents, envs, actions):
    logits = 4 * numbers(data.draw, (agents, envs, actions), is_finite=True)
    uniforms = np.random.default_rng(actions).random((agents, envs), np.float32)
    choices, log_p = NativeChoice(actions).draw(logits, None, uniforms)
    exact = logits - np.log(np.exp(logits.astype(np.float64)).sum(axis=-1, keepdims=True))
    exact = np.take_along_axis(exact, choices[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(log_p, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("actions", [0, -1])
def test_a_choice_among_no_actions_is_refused(actions):
    with pytest.raises(ValueError):
        NativeChoice(actions).draw(np.zeros((2, 3, 0), np.float32), None, np.zeros((2, 3), np.float32))


@fuzzed
@given(st.data(), st.lists(SIZES, min_size=1, max_size=3))
def test_double_exponentials_are_refused_or_equal_numpy(data, shape):
    (array,) = arrays(data.draw, tuple(shape))
    array = array.astype(np.float64) * 300 if data.draw(st.integers(0, 3)) else array
    result = is_called(native_world.exp, array)
    assert (result is None) == (array.dtype != np.float64)
    if result is not None:
        with np.errstate(all="ignore"):
            require_equal(result, exact_world.exp(np.array(array, order="C")))


@st.composite
def bodies(draw, moves):
    speed = st.sampled_from([np.inf, 1.3, 0.0, -1.0, np.nan])
    return Body(
        "body", draw(st.floats(0, 1)), draw(st.booleans()), max_speed=draw(speed), moves=moves and draw(st.booleans())
    )


@fuzzed
@given(
    st.data(),
    st.lists(bodies(True), max_size=4),
    st.lists(bodies(False), max_size=3),
    st.integers(0, 2),
    st.integers(0, 20),
)
def test_world_of_any_bodies_has_numpy_bytes(data, agents, landmarks, goals, num_envs):
    arguments = tuple(agents), tuple(landmarks), goals if landmarks else 0, 2, num_envs
    worlds = [kind(*arguments) for kind in (NativeWorld, ExactWorld)]
    place = numbers(data.draw, worlds[0].position.shape).astype(np.float64)
    speed = numbers(data.draw, worlds[0].velocity.shape).astype(np.float64)
    with np.errstate(all="ignore"):
        for step in range(3):
            force = numbers(data.draw, worlds[0].velocity.shape)
            for world in worlds:
                if step == 0:
                    world.position[...], world.velocity[...] = place, speed
                    world.update_derived()
                world.push(slice(None), force)
                world.advance()
            for name in ("position", "velocity", "relative", "squares", "distance"):
                require_equal(*(getattr(world, name) for world in worlds))


def require_equal(ours, numpys):
    """Equal bytes except for NaN, where sign and digits mean nothing."""
    assert ours.shape == numpys.shape and ours.dtype == numpys.dtype
    is_number = ~np.isnan(numpys)
    np.testing.assert_array_equal(np.isnan(ours), ~is_number)
    assert ours[is_number].tobytes() == numpys[is_number].tobytes()
