"""A call computes the same as numpy and torch for any arrays, or raises. It never ends the process.

`test_no_sanitizer_finds_a_fault_in_any_call` runs this file and the file of actors with kernels that watch every access
to memory.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from built_kernels import copy_sources, needs_kernels
from described_entities import described
from fuzzed_arrays import arrays, fuzzed, is_called, networks, numbers
from hypothesis import given
from hypothesis import strategies as st
from torch_perceptrons import expected

from marless.functions.environments.entities.description import Entities, EntityBlock
from marless.functions.native.arithmetic import NATIVE
from marless.functions.native.variants import SOURCE
from marless.functions.nn.discrete import OneChoice
from marless.functions.nn.entities.attention import attention_over
from marless.functions.nn.layers import Gru, Relu, Tanh
from marless.functions.nn.losses import ClippedPolicyLoss, ClippedValueLoss
from marless.functions.nn.native.calls import NativeOptimiser, NativePerceptron, room_for
from marless.functions.nn.native.losses import native_loss
from marless.functions.nn.shape import Network
from marless.infra.packaging import kernel_build

pytestmark = needs_kernels

FUZZED = [str(Path(__file__).with_name(f"test_fuzzed_{name}.py")) for name in ("calls", "actors", "games")]
STEPS = st.integers(0, 2**40) | st.integers(-(2**66), 2**66)


@fuzzed
@given(st.data(), networks(), st.integers(1, 50))
def test_passes_are_refused_or_give_shaped_numbers(data, network, rows):
    perceptron, size, out = NativePerceptron(network), (network.parameters,), network.outputs
    flat, inputs, grad_output, gradient = arrays(data.draw, size, (rows, network.sizes[0]), (rows, out), size)
    outputs = is_called(perceptron.forward, flat, inputs)
    assert outputs is None or outputs.shape == (len(inputs), out)
    is_called(perceptron.backward, grad_output, gradient)


@fuzzed
@given(st.data(), networks(), st.integers(1, 50))
def test_passes_over_numbers_are_those_of_torch(data, network, rows):
    flat = numbers(data.draw, (network.parameters,), is_finite=True) / 3
    inputs = numbers(data.draw, (rows, network.sizes[0]), is_finite=True)
    grad_output = numbers(data.draw, (rows, network.outputs), is_finite=True)
    perceptron, gradient = NativePerceptron(network), np.zeros(network.parameters, np.float32)
    outputs = perceptron.forward(flat, inputs)
    perceptron.backward(grad_output, gradient)
    exact_outputs, exact = expected(network, *(each.astype(np.float64) for each in (flat, inputs, grad_output)))
    np.testing.assert_allclose(outputs, exact_outputs, rtol=1e-4, atol=1e-4)
    # Norms of few units divide by differences that rounding made, relu may be on its other side of 0.
    if network.norm is None and network.activation is Tanh:
        np.testing.assert_allclose(gradient, exact, rtol=1e-3, atol=1e-4 * rows)


@fuzzed
@given(st.data(), networks(), st.integers(1, 40), st.booleans())
def test_training_pass_is_refused_or_leaves_inputs(data, network, rows, is_critic):
    is_critic = is_critic and network.outputs == network.sizes[-1]
    network = replace(network, sizes=(*network.sizes[:-1], 1)) if is_critic else network
    draw, choices, size = data.draw, network.outputs, (network.parameters,)
    *vectors, inputs, first, second = arrays(draw, size, size, size, (rows, network.sizes[0]), (rows,), (rows,))
    optimiser = is_called(NativeOptimiser, *vectors, draw(STEPS), 1e-3, 1e-5, draw(st.sampled_from([0.5, 0])))
    fault = draw(st.integers(0, 5))
    order = np.array(draw(st.lists(st.integers(-(fault == 0), rows - (fault != 0)), min_size=1, max_size=2 * rows)))
    bounds = [0, *draw(st.sets(st.integers(1, len(order)), max_size=3).map(sorted)), len(order) + (fault == 1)]
    legal = draw(st.none() | st.just(np.ones((rows, choices + (fault == 2)), bool)))
    actions = np.array(draw(st.lists(st.integers(0, choices - (fault != 3)), min_size=rows, max_size=rows)))
    policy = ClippedPolicyLoss(OneChoice(choices), actions, first, second, legal, 0.2, 0.01)
    loss = native_loss(ClippedValueLoss(first, second, 0.2, 10.0) if is_critic else policy)
    if optimiser is not None:
        training = is_called(NativePerceptron(network).train, optimiser, inputs, order, sorted({*bounds}), loss)
        assert training is None or training.metrics.shape == (loss.metrics, len(order))


@fuzzed
@given(st.data(), st.integers(1, 200))
def test_a_step_is_refused_or_taken(data, size):
    (*vectors, gradient), steps = arrays(data.draw, *[(size,)] * 4), data.draw(STEPS)
    optimiser = is_called(NativeOptimiser, *vectors, steps, 1e-3, 1e-5, 0.5)
    if optimiser is not None:
        assert 0 <= steps == optimiser.steps
        is_called(optimiser.step, gradient)


@fuzzed
@given(st.data(), st.lists(st.integers(1, 30), min_size=1, max_size=3), st.sampled_from(["exp", "log", "tanh"]))
def test_elementary_functions_equal_numpy_for_every_number(data, shape, name):
    (array,) = arrays(data.draw, tuple(shape))
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(array.astype(np.float32).astype(np.float64)).astype(np.float32).astype(array.dtype)
        result = getattr(NATIVE, name)(array)
    assert (result.shape, result.dtype) == (array.shape, array.dtype)
    if array.dtype.kind == "f":
        np.testing.assert_allclose(result, exact, rtol=2e-3 if array.itemsize == 2 else 1e-6, atol=1e-37)


@pytest.mark.parametrize(
    "network",
    [
        Network((3,) * 18),
        Network((3,)),
        Network((3, 0, 2)),
        Network((0, 2)),
        Network((3, 4, 2), recurrent=True),
        Network((3, 4, 2), activation=Gru),
        Network((3, 4, 2), norm=Relu),
        Network((2**40, 2**40)),
        Network((3, 32, 2), front=Relu),
        Network((3, 32), front=attention_over(described(3))),
        Network((3, 16, 2), front=attention_over(described(3))),
        Network((3, 48, 2), front=attention_over(described(3))),
        Network((4, 32, 2), front=attention_over(described(3))),
        Network((67, 32, 2), front=attention_over(described(3, (64, 1, False)))),
        Network((3, 32, 2), front=attention_over(Entities((0, 1, 3), ()))),
        Network((3, 32, 2), front=attention_over(Entities((0, -1, 2), ()))),
        Network((3, 32, 2), front=attention_over(Entities((0,), (EntityBlock("a", ((1,), (5,))),)))),
        Network((4, 32, 2), front=attention_over(Entities((0,), (EntityBlock("a", ((1,), (2, 3))),)))),
        Network((3, 32, 2), front=attention_over(Entities((0,), (EntityBlock("a", ((1,), (2,)), absent=(0, 0)),)))),
        Network((3, 2**40, 2), front=attention_over(described(3))),
        Network((5, 32, 16), front=attention_over(described(3, (2, 1, False), first_action=0))),
    ],
)
def test_network_beyond_kernels_is_refused(network):
    with pytest.raises(ValueError, match="the kernels do not compute that"):
        room_for(network, 2, 1, trains=True)


def test_rows_beyond_memory_are_refused_without_harm():
    network, rng = Network((3, 8, 2)), np.random.default_rng(1)
    perceptron, flat = NativePerceptron(network), rng.standard_normal(network.parameters).astype(np.float32)
    for rows in (2**27 + 1, 2**58):
        with pytest.raises(ValueError):
            perceptron.forward(flat, np.broadcast_to(np.float32(1), (rows, 3)))
        with pytest.raises(ValueError):
            room_for(network, rows, 1, trains=True)
    inputs = rng.standard_normal((40, 3)).astype(np.float32)
    outputs, _ = expected(network, flat.astype(np.float64), inputs.astype(np.float64), np.zeros((40, 2)))
    np.testing.assert_allclose(perceptron.forward(flat, inputs), outputs, rtol=1e-5, atol=1e-5)


@pytest.mark.conformance
@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("gcc"), reason="GCC's sanitizers are loaded before Python"
)
def test_no_sanitizer_finds_a_fault_in_any_call(tmp_path):
    copy_sources(tmp_path)
    _, fault = kernel_build.build(tmp_path, command=["gcc", "-g", "-fsanitize=address,undefined"])
    assert fault == ""
    program = f"""
import marless.functions.native.variants as variants
from pathlib import Path
variants.SOURCE = Path({str(tmp_path / SOURCE.name)!r})
import pytest, sys
from marless.functions.native.kernels import kernels
assert kernels()._name.startswith({str(tmp_path)!r})
sys.exit(pytest.main(["-q", "-s", "-m", "not conformance", *{FUZZED!r}]))
"""
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "FUZZED_EXAMPLES": "300",
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
