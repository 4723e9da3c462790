"""User code changes the process: the changes are undone or reported, or its work is refused."""

import builtins
import ctypes
import math
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from marless.functions.isolation import foreign_imports
from marless.functions.isolation.arithmetic import ARITHMETIC
from marless.functions.isolation.process_guard import (
    ProcessChanged,
    ProcessGuard,
    restore,
    restore_arithmetic,
    restore_arithmetic_after,
)
from marless.functions.nn import layers

pytestmark = pytest.mark.usefixtures("code_of_others")
known_layout = pytest.mark.skipif(not ARITHMETIC.standard, reason="the layout of fenv_t is not known here")
# FE_UPWARD of fenv.h.
UPWARD = {"x86_64": 0x800, "aarch64": 0x400000, "arm64": 0x400000}
SUBNORMAL = np.float32(1e-39)


def round_upwards():
    ctypes.CDLL(None).fesetround(UPWARD[os.uname().machine])


def third():
    """1 / 3 as float32: the nearest is 11184811 / 2^25, from above. -1 / 3 rounds to the other side when rounded up."""
    return float(np.float32(-1) / np.float32(3)) * 2**25


@pytest.fixture(autouse=True)
def as_before():
    with ProcessGuard("the tests", "tests"):
        yield


@known_layout
def test_numbers_are_rounded_to_nearest_after_each_call():
    with ProcessGuard("theirs", "one") as kept:
        round_upwards()
        assert third() == -11184810.0
        restore_arithmetic()
        assert third() == -11184811.0
    assert kept.remarks() == (
        "theirs changes how numbers are rounded in its process; MARLess puts it back before it computes",
    )


@known_layout
def test_the_process_rounds_outside_as_it_did():
    registers = ARITHMETIC.read()
    round_upwards()
    with ProcessGuard("theirs", "one") as kept:
        assert third() == -11184811.0
    assert third() == -11184810.0 and not kept.changed
    ARITHMETIC.write(registers)


@known_layout
def test_settings_changed_by_library_import_are_restored():
    flush = {"x86_64": 0x8040, "aarch64": 1 << 24, "arm64": 1 << 24}[os.uname().machine]
    with ProcessGuard("theirs", "one") as kept, restore_arithmetic_after("theirs, make"):
        *rest, control = ARITHMETIC.read()
        ARITHMETIC.write((*rest, control | flush))
        assert SUBNORMAL * np.float32(1) == 0
    assert SUBNORMAL * np.float32(1) > 0 and kept.changed


@known_layout
def test_rounding_that_changes_in_some_calls_is_refused():
    with ProcessGuard("theirs", "one"):
        for _ in range(2):  # as always: its numbers are independent of the age of the process
            with restore_arithmetic_after("theirs, always"):
                round_upwards()
        with restore_arithmetic_after("theirs, seldom"):
            pass
        with (
            pytest.raises(ProcessChanged, match="in some calls and not in others"),
            restore_arithmetic_after("theirs, seldom"),
        ):
            round_upwards()
        assert third() == -11184811.0


def test_numpy_warnings_are_default_inside_and_restored_outside():
    with np.errstate(all="ignore"):
        before = np.geterr()
        with ProcessGuard("theirs", "one") as kept:
            assert np.geterr()["divide"] == "warn"
            np.seterr(all="raise")
            restore_arithmetic()
            assert float(np.float32(1e-30) * np.float32(1e-30)) == 0.0  # underflows, without an error
        assert np.geterr() == before
    assert "numpy's error state" in kept.remarks()[0]


def test_files_variables_signals_and_filters_are_switched_back(tmp_path, shell):
    shell.cd(tmp_path)
    (tmp_path / "theirs").mkdir()
    stdout, limit, handler = sys.stdout, sys.getrecursionlimit(), signal.getsignal(signal.SIGUSR1)
    variables, filters = dict(os.environ), list(warnings.filters)
    with ProcessGuard("theirs", "one") as kept:
        os.umask(0o777)
        os.chdir("theirs")
        os.environ.clear()
        os.environ["OURS"] = "no"
        signal.signal(signal.SIGUSR1, lambda *_: None)
        sys.setrecursionlimit(limit + 7)
        sys.stdout = None
        warnings.simplefilter("error")
        restore()
        (tmp_path / "file").touch()
        assert (tmp_path / "file").stat().st_mode & 0o700 == 0o600
        assert (Path.cwd(), sys.stdout, sys.getrecursionlimit()) == (tmp_path, stdout, limit)
        assert (dict(os.environ), list(warnings.filters)) == (variables, filters)
        assert signal.getsignal(signal.SIGUSR1) is handler
    told = " ".join(kept.remarks())
    assert "file mode mask" in told and "current folder" in told and "filters" not in told
    with ProcessGuard("theirs", "one"):
        assert Path.cwd() == tmp_path / "theirs" and os.environ["OURS"] == "no"
        assert sys.getrecursionlimit() == limit + 7
    with ProcessGuard("theirs", "another run"):
        assert Path.cwd() == tmp_path
    assert dict(os.environ) == variables


def test_numerical_threads_are_as_many_as_before():
    def counts():
        return [library["num_threads"] for library in threadpool_info()]

    before = counts()
    with ProcessGuard("theirs", "one") as kept:
        threadpool_limits(before[0] + 1)
        restore()
        assert counts() == before
    assert "numerical threads" in kept.remarks()[0]


def test_to_import_torch_changes_nothing(shell):
    torch = pytest.importorskip("torch")
    shell.forget("torch")
    with ProcessGuard("game") as keeper:
        shell.provide({"torch": torch})
    assert not keeper.changed


@pytest.mark.slow
def test_torch_training_makes_no_process_foreign():
    """In a fresh process, because modules of this process are known."""
    pytest.importorskip("torch")
    code = (
        "import marless.infra.local.worker_main\n"
        "from marless.functions.isolation.foreign_imports import IMPORTS\n"
        "IMPORTS.expect()\n"
        "import torch, marless.functions.algorithms.engines.torch_engine as engine\n"
        "engine.compute_alike()\n"
        "weights = torch.zeros(3, requires_grad=True)\n"
        "weights.grad = torch.ones(3)\n"
        "torch.optim.Adam([weights]).step()\n"
        "assert not IMPORTS.look()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torch_computes_as_by_default():
    torch = pytest.importorskip("torch")
    with ProcessGuard("theirs", "one"):
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        restore()
        assert torch.zeros(1).dtype == torch.float32 and torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (np, "exp", "numpy.exp"),
        (np, "where", "numpy.where"),
        (np.random, "Philox", "numpy.random.Philox"),
        (np.random, "default_rng", "numpy.random.default_rng"),
        (math, "sqrt", "math.sqrt"),
        (
            layers,
            next(
                name for name, value in vars(layers).items() if callable(value) and value.__module__ == layers.__name__
            ),
            "",
        ),
    ],
)
def test_work_with_replaced_functions_is_refused_elsewhere_unaffected(owner, name, said):
    original = getattr(owner, name)
    with ProcessGuard("theirs", f"replaces {name}"), pytest.raises(ProcessChanged, match=f"theirs replaces .*{said}"):
        setattr(owner, name, lambda *_: 7)
        restore()
    assert getattr(owner, name) is original
    with ProcessGuard("theirs", "another run"):
        restore()
    # The same run is refused again: in a new process it would have replaced the same functions.
    with ProcessGuard("theirs", f"replaces {name}"), pytest.raises(ProcessChanged):
        restore()


def test_replaced_function_is_restored_after_error():
    original = np.tanh
    with pytest.raises(ZeroDivisionError), ProcessGuard("theirs", "fails"):
        np.tanh = None
        raise ZeroDivisionError
    assert np.tanh is original


def test_functions_that_compute_nothing_may_be_replaced():
    original = builtins.print
    try:
        with ProcessGuard("theirs", "prints"):
            builtins.print = lambda *_: None
            restore()
    finally:
        builtins.print = original


def test_process_is_foreign_from_first_user_import(shell):
    imports = foreign_imports.Imports()
    imports.expect()
    assert not imports.look()
    shell.provide({"marless.functions.late": np, "colorsys": np})
    # The module that setuptools adds to every interpreter, and Python's own build module.
    shell.provide({"_distutils_hack": np, "_sysconfigdata__linux_x86_64-linux-gnu": np, "_cython_3_2_4": np})
    assert not imports.look()
    shell.provide({"somebodys.simulator": np})
    assert imports.look()
    shell.forget("somebodys.simulator")
    assert imports.look()
