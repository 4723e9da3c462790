"""The kernels' exp, log and tanh against numbers of any precision."""

import mpmath
import numpy as np
import pytest
from built_kernels import needs_kernels

from marless.functions.native.arithmetic import NATIVE

pytestmark = needs_kernels

REFERENCE = {"exp": mpmath.exp, "log": mpmath.log, "tanh": mpmath.tanh}


def of_every_exponent(each):
    """Numbers of either sign of all 254 exponents of normal numbers, and subnormal ones."""
    exponents = np.repeat(np.arange(255, dtype=np.uint32), each)
    mantissas = np.random.default_rng(1).integers(1 << 23, size=len(exponents), dtype=np.uint32)
    positive = (exponents << 23 | mantissas).view(np.float32)
    return np.concatenate([positive, -positive])


# The bounds of elementary.h in units in the last place, with the arguments of the largest errors. All numbers of single
# precision were tried for exp and tanh, and all from 1/2 to 2 for log.
BOUNDS = {"exp": 1.013, "log": 0.83, "tanh": 2.03}
WORST = {"exp": [59.30603790283203, -5.877884387969971], "log": [1.4136420488357544], "tanh": [0.20547404885292053]}


def require_bound(function, inputs, outputs):
    """A unit belongs to the single-precision number nearest to the exact number."""
    for x, y in zip(inputs.tolist(), outputs.tolist(), strict=True):
        with mpmath.workprec(120):
            exact = REFERENCE[function](mpmath.mpf(x))
            with np.errstate(over="ignore"):
                nearest = np.float32(float(exact))
            if np.isinf(nearest):
                assert y == nearest, (x, y)
                continue
            assert abs(exact - mpmath.mpf(y)) <= BOUNDS[function] * float(np.spacing(abs(nearest))), (x, y)


@pytest.mark.parametrize("function", REFERENCE)
def test_functions_are_within_their_bounds(function):
    rng = np.random.default_rng(2)
    inputs = np.concatenate(
        [of_every_exponent(2), rng.uniform(-1, 1, 500), rng.uniform(-104, 89, 500), WORST[function]]
    )
    inputs = (np.abs(inputs) if function == "log" else inputs).astype(np.float32)
    require_bound(function, inputs, getattr(NATIVE, function)(inputs))


@pytest.mark.conformance
@pytest.mark.parametrize("function", REFERENCE)
def test_functions_are_within_bounds_at_every_exponent(function):
    inputs = of_every_exponent(1000)
    inputs = np.abs(inputs) if function == "log" else inputs
    require_bound(function, inputs, getattr(NATIVE, function)(inputs))


@pytest.mark.parametrize("function", REFERENCE)
def test_bounds_are_no_larger_than_largest_error(function):
    x = np.array(WORST[function], np.float32)
    with mpmath.workprec(120):
        (exact, *_), y = (
            (REFERENCE[function](mpmath.mpf(number)) for number in x.tolist()),
            getattr(NATIVE, function)(x),
        )
        assert abs(exact - mpmath.mpf(float(y[0]))) > (BOUNDS[function] - 0.004) * float(np.spacing(np.float32(exact)))


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        ("exp", [np.inf, -np.inf, np.nan, 0, -0.0, 89, -104], [np.inf, 0, np.nan, 1, 1, np.inf, 0]),
        ("log", [np.inf, 0, -0.0, -1, np.nan, 1, -np.inf], [np.inf, -np.inf, -np.inf, np.nan, np.nan, 0, np.nan]),
        ("tanh", [np.inf, -np.inf, np.nan, 0, -0.0], [1, -1, np.nan, 0, -0.0]),
    ],
)
def test_infinities_zeros_and_nan_are_those_of_c99(function, inputs, expected):
    outputs = getattr(NATIVE, function)(np.array(inputs, np.float32))
    np.testing.assert_array_equal(outputs, np.array(expected, np.float32))
    signs = [sign for sign, number in zip(np.signbit(outputs), expected, strict=True) if not np.isnan(number)]
    assert signs == [bool(np.signbit(number)) for number in expected if not np.isnan(number)]


@pytest.mark.parametrize("shape", [(0,), (1,), (), (5, 7), (3, 33)])
@pytest.mark.parametrize("function", REFERENCE)
def test_arrays_of_any_shape_and_precision_keep_bounds(function, shape):
    numbers = np.random.default_rng(3).uniform(0.1, 2, shape)
    for array in (numbers, numbers.astype(np.float32, order="F")):
        results = getattr(NATIVE, function)(array)
        assert results.dtype == array.dtype and results.shape == shape
        np.testing.assert_allclose(results, getattr(np, function)(numbers), rtol=1e-6, atol=1e-7)
