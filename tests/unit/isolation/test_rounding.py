"""A process that rounds otherwise is refused, and one that drops numbers near zero computes with them."""

import os

import numpy as np
import pytest

import marless as public
from marless.coordinator.errors import USER_ERROR, UserError
from marless.functions.isolation.arithmetic import ARITHMETIC
from marless.rounding import exact_arithmetic
from marless.user_errors import short_errors

pytestmark = pytest.mark.skipif(not ARITHMETIC.standard, reason="the layout of this machine's registers is not known")

IS_X86 = os.uname().machine == "x86_64"
# Of MXCSR, and of FPCR: upward, downward, toward zero.
ROUNDINGS = [0x4000, 0x2000, 0x6000] if IS_X86 else [0x400000, 0x800000, 0xC00000]
# Flush results, take operands for zero, both. On arm64 one bit does both.
DROPS = [0x8000, 0x0040, 0x8040] if IS_X86 else [1 << 24]
SMALL = ("task.name=matrix/penalty", "stop.rounds=1", "evaluation.episodes=2", "evaluation.final_episodes=2")
# A site module that rounds toward zero when Python starts.
SITE = """
import ctypes
ctypes.CDLL(None).fesetround({0})
"""


@pytest.fixture
def changed():
    """Sets bits of this thread's control register until the test ends."""
    before = ARITHMETIC.read()

    def change(bits):
        ARITHMETIC.write((*before[:-1], before[-1] | bits))
        return ARITHMETIC.read()

    yield change
    ARITHMETIC.write(before)


@pytest.mark.parametrize("bits", ROUNDINGS)
def test_process_that_rounds_otherwise_is_refused(marless, changed, bits):
    registers = changed(bits)
    for command in (["train", *SMALL], ["doctor"], ["config"]):
        said = marless(*command)
        assert said.code == USER_ERROR and not said.out
        assert [line.partition(",")[0] for line in said.err] == [
            "marless: this process does not round numbers to nearest"
        ]
    for function in (public.train, public.evaluate, public.load_policy):
        with pytest.raises(UserError, match="changed the processor's rounding mode; run MARLess without it"):
            function("latest")
    assert ARITHMETIC.read() == registers


@pytest.mark.parametrize("bits", DROPS)
def test_process_that_flushes_denormals_is_corrected_and_told(marless, changed, bits):
    registers = changed(bits)
    said = marless("config")
    assert said.code == 0 and "made the processor drop numbers near zero" in said.err[0]
    assert short_errors()(ARITHMETIC.read)() == ARITHMETIC.standard and ARITHMETIC.read() == registers
    with exact_arithmetic() as has_changed:
        assert has_changed and np.float32(1e-30) * np.float32(1e-10) > 0


def test_a_process_as_it_begins_is_told_nothing(marless):
    with exact_arithmetic() as has_changed:
        assert not has_changed
    assert marless("config").err == []


@pytest.mark.slow
@pytest.mark.skipif(not IS_X86, reason="the number of the rounding mode is of x86")
def test_workers_with_other_initial_rounding_give_same_weights(marless, shell, tmp_path, processes):
    assert marless("train", *SMALL, "--run", "plain", "--workers", "1").code == 0
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(SITE.format(0xC00))
    shell.export(PYTHONPATH=str(tmp_path / "site"))
    assert marless("train", *SMALL, "--run", "other", "--workers", "2").code == 0
    weights = [(tmp_path / f"runs/{name}/policies.safetensors").read_bytes() for name in ("plain", "other")]
    assert weights[0] == weights[1]
