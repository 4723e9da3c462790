"""Whatever arrays a call gets, it computes what numpy and torch do, or raises; it never ends the process.

`test_no_sanitizer_finds_a_fault_in_any_call` runs this file with kernels that watch every access to memory.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from built_kernels import needs_kernels
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_perceptrons import expected

from functions.native.arithmetic import NATIVE
from functions.native.variants import SOURCE
from functions.nn.discrete import OneChoice
from functions.nn.layers import LayerNorm, Relu, Tanh
from functions.nn.losses import ClippedPolicyLoss, ClippedValueLoss
from functions.nn.native.calls import Optimiser, Perceptron
from functions.nn.native.losses import native_loss
from functions.nn.shape import Network
from infra.packaging import kernel_build

pytestmark = needs_kernels

EXAMPLES = int(os.environ.get("FUZZED_EXAMPLES", "40"))
fuzzed = settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
# Numbers that round, overflow, vanish or are none.
SPECIAL = np.array([0, -0.0, 1e-45, -1e-39, 1.2e-38, 3e38, -3e38, np.inf, -np.inf, np.nan, 88.8, -104.0], np.float32)
KINDS = ("<f4", "<f8", "<f2", ">f4", "<i4", "?")
# Refusals of arrays and of numbers that do not convert.
REFUSALS = (ValueError, TypeError, IndexError, OverflowError)


@st.composite
def networks(draw):
    sizes = tuple(draw(st.lists(st.integers(1, 40), min_size=2, max_size=4)))
    return Network(sizes, activation=draw(st.sampled_from([Tanh, Relu])), norm=draw(st.sampled_from([None, LayerNorm])))


def wrong(draw, array):
    """The array with another shape, type or order in memory, or as one that cannot be written or read at once."""
    match draw(st.sampled_from(["shape", "kind", "fortran", "strided", "reversed", "read-only", "unaligned"])):
        case "shape":
            return array[
                draw(st.sampled_from([np.s_[1:], np.s_[..., None], np.s_[:0], np.s_[0], np.s_[..., 1:]]))
            ].copy()
        case "kind":
            with np.errstate(all="ignore"):
                return array.astype(draw(st.sampled_from(KINDS)))
        case "fortran":
            return np.asfortranarray(array)
        case "strided":
            return np.repeat(array, 2, axis=-1)[..., ::2]
        case "reversed":
            return array[::-1].copy()[::-1]
        case "read-only":
            array.flags.writeable = False
            return array
        case "unaligned":
            memory = np.zeros(array.nbytes + 1, np.uint8)
            moved = memory[1:].view(array.dtype).reshape(array.shape)
            moved[...] = array
            return moved


def numbers(draw, shape, is_finite=False):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    array = rng.standard_normal(shape).astype(np.float32)
    return (
        array
        if is_finite or draw(st.booleans())
        else np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), array)
    )


def arrays(draw, *shapes):
    """Arrays of these shapes; in half of the cases one of them is wrong."""
    fault = draw(st.integers(0, 2 * len(shapes) - 1))
    right = [numbers(draw, shape) for shape in shapes]
    return [wrong(draw, array) if place == fault else array for place, array in enumerate(right)]


def is_called(call, *arguments):
    """What the call returns; None if it is refused."""
    try:
        return call(*arguments)
    except REFUSALS:
        return None


@fuzzed
@given(st.data(), networks(), st.integers(1, 50))
def test_passes_are_refused_or_come_to_numbers_of_their_shapes(data, network, rows):
    perceptron, size, out = Perceptron(network), (network.parameters,), network.sizes[-1]
    flat, inputs, grad_output, gradient = arrays(data.draw, size, (rows, network.sizes[0]), (rows, out), size)
    outputs = is_called(perceptron.forward, flat, inputs)
    assert outputs is None or outputs.shape == (len(inputs), out)
    is_called(perceptron.backward, grad_output, gradient)


@fuzzed
@given(st.data(), networks(), st.integers(1, 50))
def test_passes_over_numbers_are_those_of_torch(data, network, rows):
    flat = numbers(data.draw, (network.parameters,), is_finite=True) / 3
    inputs = numbers(data.draw, (rows, network.sizes[0]), is_finite=True)
    grad_output = numbers(data.draw, (rows, network.sizes[-1]), is_finite=True)
    perceptron, gradient = Perceptron(network), np.zeros(network.parameters, np.float32)
    outputs = perceptron.forward(flat, inputs)
    perceptron.backward(grad_output, gradient)
    exact_outputs, exact = expected(network, *(each.astype(np.float64) for each in (flat, inputs, grad_output)))
    np.testing.assert_allclose(outputs, exact_outputs, rtol=1e-4, atol=1e-4)
    # Norms of few units divide by differences that rounding made, relu may be on its other side of 0.
    if network.norm is None and network.activation is Tanh:
        np.testing.assert_allclose(gradient, exact, rtol=1e-3, atol=1e-4 * rows)


@fuzzed
@given(st.data(), networks(), st.integers(1, 40), st.booleans())
def test_a_pass_of_training_is_refused_or_leaves_numbers_as_they_were_given(data, network, rows, is_critic):
    draw, choices, size = data.draw, network.sizes[-1], (network.parameters,)
    *vectors, inputs, first, second = arrays(draw, size, size, size, (rows, network.sizes[0]), (rows,), (rows,))
    optimiser = is_called(Optimiser, *vectors, draw(st.integers(0, 2**40)), 1e-3, 1e-5, draw(st.sampled_from([0.5, 0])))
    fault = draw(st.integers(0, 5))
    order = np.array(draw(st.lists(st.integers(-(fault == 0), rows - (fault != 0)), min_size=1, max_size=2 * rows)))
    bounds = [0, *draw(st.sets(st.integers(1, len(order)), max_size=3).map(sorted)), len(order) + (fault == 1)]
    legal = draw(st.none() | st.just(np.ones((rows, choices + (fault == 2)), bool)))
    actions = np.array(draw(st.lists(st.integers(0, choices - (fault != 3)), min_size=rows, max_size=rows)))
    policy = ClippedPolicyLoss(OneChoice(choices), actions, first, second, legal, 0.2, 0.01)
    loss = native_loss(ClippedValueLoss(first, second, 0.2, 10.0) if is_critic else policy)
    if optimiser is not None:
        training = is_called(Perceptron(network).train, optimiser, inputs, order, sorted({*bounds}), loss)
        assert training is None or training.metrics.shape == (3, len(order))


@fuzzed
@given(st.data(), st.integers(1, 200))
def test_a_step_is_refused_or_taken(data, size):
    *vectors, gradient = arrays(data.draw, *[(size,)] * 4)
    optimiser = is_called(Optimiser, *vectors, data.draw(st.integers(0, 2**40)), 1e-3, 1e-5, 0.5)
    if optimiser is not None:
        is_called(optimiser.step, gradient)


@fuzzed
@given(st.data(), st.lists(st.integers(1, 30), min_size=1, max_size=3), st.sampled_from(["exp", "log", "tanh"]))
def test_elementary_functions_are_those_of_numpy_for_every_number(data, shape, name):
    (array,) = arrays(data.draw, tuple(shape))
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(array.astype(np.float32).astype(np.float64)).astype(np.float32).astype(array.dtype)
        result = getattr(NATIVE, name)(array)
    assert (result.shape, result.dtype) == (array.shape, array.dtype)
    if array.dtype.kind == "f":
        np.testing.assert_allclose(result, exact, rtol=2e-3 if array.itemsize == 2 else 1e-6, atol=1e-37)


@pytest.mark.conformance
@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("gcc"), reason="GCC's sanitizers are loaded before Python"
)
def test_no_sanitizer_finds_a_fault_in_any_call(tmp_path):
    for file in SOURCE.parent.glob("*.[ch]"):
        shutil.copy(file, tmp_path)
    _, fault = kernel_build.build(tmp_path, command=["gcc", "-g", "-fsanitize=address,undefined"])
    assert fault == ""
    program = f"""
import functions.native.variants as variants
from pathlib import Path
variants.SOURCE = Path({str(tmp_path / SOURCE.name)!r})
import pytest, sys
from functions.native.kernels import kernels
assert kernels()._name.startswith({str(tmp_path)!r})
sys.exit(pytest.main(["-q", "-s", "-m", "not conformance", {str(Path(__file__))!r}]))
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
