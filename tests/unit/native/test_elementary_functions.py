"""The kernels' exp, log and tanh against numbers of any precision."""

import subprocess

import mpmath
import numpy as np
import pytest
from c_programs import compiled, needs_compiler

pytestmark = needs_compiler

REFERENCE = {"exp": mpmath.exp, "log": mpmath.log, "tanh": mpmath.tanh}
BLOCK = 16


@pytest.fixture(scope="module")
def elementary(tmp_path_factory):
    program = compiled("elementary", tmp_path_factory.mktemp("elementary") / "elementary", "-O1", "-march=native")

    def values(function, inputs):
        padded = np.resize(inputs, -(-len(inputs) // BLOCK) * BLOCK).astype(np.float32)
        done = subprocess.run([program, function], input=padded.tobytes(), capture_output=True, check=True)
        return np.frombuffer(done.stdout, np.float32)[: len(inputs)]

    return values


def of_every_exponent(each):
    """Numbers of either sign of all 254 exponents of normal numbers, and subnormal ones."""
    exponents = np.repeat(np.arange(255, dtype=np.uint32), each)
    mantissas = np.random.default_rng(1).integers(1 << 23, size=len(exponents), dtype=np.uint32)
    positive = (exponents << 23 | mantissas).view(np.float32)
    return np.concatenate([positive, -positive])


def require_two_units(function, inputs, outputs):
    """Every output is within two units in the last place of the single-precision number nearest to the exact one."""
    for x, y in zip(inputs.tolist(), outputs.tolist(), strict=True):
        with mpmath.workprec(120):
            exact = REFERENCE[function](mpmath.mpf(x))
            with np.errstate(over="ignore"):
                nearest = np.float32(float(exact))
            if np.isinf(nearest):
                assert y == nearest, (x, y)
                continue
            assert abs(exact - mpmath.mpf(y)) <= 2 * float(np.spacing(abs(nearest))), (x, y)


@pytest.mark.parametrize("function", REFERENCE)
def test_functions_are_within_two_units_in_the_last_place(elementary, function):
    rng = np.random.default_rng(2)
    inputs = np.concatenate([of_every_exponent(2), rng.uniform(-1, 1, 500), rng.uniform(-104, 89, 500)])
    inputs = (np.abs(inputs) if function == "log" else inputs).astype(np.float32)
    require_two_units(function, inputs, elementary(function, inputs))


@pytest.mark.conformance
@pytest.mark.parametrize("function", REFERENCE)
def test_functions_are_within_two_units_at_many_numbers_of_every_exponent(elementary, function):
    inputs = of_every_exponent(1000)
    inputs = np.abs(inputs) if function == "log" else inputs
    require_two_units(function, inputs, elementary(function, inputs))


@pytest.mark.parametrize(
    ("function", "inputs", "expected"),
    [
        ("exp", [np.inf, -np.inf, np.nan, 0, -0.0, 89, -104], [np.inf, 0, np.nan, 1, 1, np.inf, 0]),
        ("log", [np.inf, 0, -0.0, -1, np.nan, 1, -np.inf], [np.inf, -np.inf, -np.inf, np.nan, np.nan, 0, np.nan]),
        ("tanh", [np.inf, -np.inf, np.nan, 0, -0.0], [1, -1, np.nan, 0, -0.0]),
    ],
)
def test_infinities_zeros_and_nan_are_those_of_c99(elementary, function, inputs, expected):
    outputs = elementary(function, np.array(inputs, np.float32))
    np.testing.assert_array_equal(outputs, np.array(expected, np.float32))
    signs = [sign for sign, number in zip(np.signbit(outputs), expected, strict=True) if not np.isnan(number)]
    assert signs == [bool(np.signbit(number)) for number in expected if not np.isnan(number)]
