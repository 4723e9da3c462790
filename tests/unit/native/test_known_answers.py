"""Kernels are loaded only if they compute as IEEE 754 says and are the bytes that a compiler wrote."""

import os
import platform
import random
import shlex
import shutil
import subprocess
import sys
from fractions import Fraction
from importlib.util import find_spec

import exact_kernels
import numpy as np
import pytest
import random_calls
from built_kernels import needs_kernels
from c_programs import needs_compiler

from marless.functions.errors import MissingExtra
from marless.functions.isolation.arithmetic import ARITHMETIC
from marless.functions.native.interface import KERNELS, declared_layouts, open_library
from marless.functions.native.kernels import kernels
from marless.functions.native.known_answers import KINDS, sum_of, wrong_answers
from marless.functions.native.libraries import LibraryFault, load
from marless.functions.native.variants import SOURCE, VARIANTS, library_name, record_of, sources_digest
from marless.infra.packaging import kernel_build

NAMES = [library_name(variant) for variant in VARIANTS.get(platform.machine(), ())]
# GCC's flags for fast floats, one by one, and other flags that change numbers.
FAST = [
    "-ffast-math",
    "-Ofast",
    "-funsafe-math-optimizations",
    "-fassociative-math -fno-signed-zeros -fno-trapping-math",
    "-freciprocal-math",
    "-ffinite-math-only",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fsingle-precision-constant",
    "-fexcess-precision=fast",
    "-frounding-math",
]
FAST_OF_CLANG = [
    "-ffast-math",
    "-ffp-contract=fast",
    "-freciprocal-math",
    "-fassociative-math -fno-signed-zeros -fno-trapping-math",
    "-fno-honor-nans",
    "-fno-honor-infinities",
    "-fapprox-func",
    "-ffp-model=fast",
]
FAST_ON_X86 = ["-mfpmath=387", "-mrecip -ffast-math", "-mpc32"]


@pytest.fixture
def installed(tmp_path):
    """A copy of the kernels that were compiled here, with their sources and records."""
    for file in SOURCE.parent.iterdir():
        if file.suffix in (".c", ".h", ".so", ".sha256"):
            shutil.copy(file, tmp_path)
    return tmp_path


def wrapper(path, *flags, command=None):
    """A compiler that always compiles with these flags."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command or kernel_build.compiler())} "$@" {" ".join(flags)}\n')
    path.chmod(0o755)
    return [str(path)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_known_answers_are_those_of_exact_arithmetic(kind):
    _, right = KINDS[kind]
    with np.errstate(all="ignore"):
        assert sum_of(exact_kernels.ANSWERS[kind]()) == right


def test_exact_arithmetic_rounds_fused_product_sum_once():
    rng = np.random.default_rng(1)
    exponents = rng.integers(-20, 20, (3, 300)).astype(np.int32)
    a, b, c = np.ldexp(rng.standard_normal((3, 300)).astype(np.float32), exponents)
    c[:150] = -a[:150] * b[:150]  # the rest is the product's own rounding
    for *factors, result in zip(a.tolist(), b.tolist(), c.tolist(), exact_kernels.fused(a, b, c).tolist(), strict=True):
        exact = Fraction(factors[0]) * Fraction(factors[1]) + Fraction(factors[2])
        neighbours = (np.nextafter(np.float32(result), np.float32(way)) for way in (-np.inf, np.inf))
        assert all(abs(exact - Fraction(result)) <= abs(exact - Fraction(float(other))) for other in neighbours)


@needs_kernels
def test_every_library_gives_known_and_equal_answers():
    libraries = [library for name in NAMES if (library := load(SOURCE.with_name(name), sources_digest(SOURCE.parent)))]
    assert libraries and not any(map(wrong_answers, libraries))
    with np.errstate(all="ignore"):
        for seed in range(20):
            assert len({sum_of(random_calls.answers(library, seed)) for library in libraries}) == 1


@needs_kernels
@pytest.mark.parametrize("registers", ["round", "flush"])
def test_process_rounding_and_answers_are_independent(registers):
    before = ARITHMETIC.read()
    if not before:
        pytest.skip("the layout of this machine's registers is not known")
    mask = {"x86_64": {"round": 0x6000, "flush": 0x8040}, "aarch64": {"round": 0xC00000, "flush": 1 << 24}}
    changed = (*before[:-1], before[-1] | mask[platform.machine()][registers])
    ARITHMETIC.write(changed)
    try:
        library = load(SOURCE.with_name(kernels()._name.rpartition("/")[2]), sources_digest(SOURCE.parent))
        assert library and ARITHMETIC.read() == changed
    finally:
        ARITHMETIC.write(before)


def library_that_computes_nothing(folder, layout):
    rows = [f'{{"{name}", {offset}, {size}}}, ' for name, (offset, size) in layout.items()]
    table = f"struct {{ char *name; long offset, size; }} table[] = {{ {''.join(rows)} {{0, 0, 0}} }};\n"
    answers = {"sources": "ML_SOURCES", "compiler": '(long)"version 7"', "layouts": "(long)table"}
    functions = [f"long {name}(void) {{ return {answers.get(name, '0')}; }}\n" for name in {*KERNELS} - {"runs_here"}]
    source = folder / SOURCE.name
    source.write_text(f"const int ml_level = 0;\n#pragma GCC visibility push(default)\n{table}{''.join(functions)}")
    files, fault = kernel_build.build(folder, command=wrapper(folder / "hasty", "-w"), source=source)
    assert not fault
    return files[0]


@needs_compiler
@pytest.mark.parametrize("name", ["MOST_LAYERS", "Adam", "PolicyRows.clip", "World.strength", "Token"])
def test_a_library_with_another_layout_is_refused(tmp_path, name):
    """Sizes, offsets and constants."""
    layout = declared_layouts()
    offset, size = layout[name]
    library = library_that_computes_nothing(tmp_path, {**layout, name: (offset + 8, size)})
    with pytest.raises(LibraryFault, match=rf"compiled by .*hasty \(version 7\), it has another {name} than Python"):
        load(library, 0)


@needs_compiler
def test_library_with_other_answers_is_refused_by_compiler(tmp_path):
    library = library_that_computes_nothing(tmp_path, declared_layouts())
    with pytest.raises(LibraryFault) as error:
        load(library, 0)
    assert str(error.value).startswith(
        f"{NAMES[0]} is refused: compiled by {tmp_path}/hasty (version 7), it computes exp"
    )
    with pytest.raises(
        MissingExtra, match=f"engine=native: {NAMES[0]} is refused: .*; install marless again with another"
    ):
        kernels(tmp_path)


@needs_kernels
def test_truncated_or_changed_library_is_refused_before_loading(installed):
    rnd, path = random.Random(1), installed / kernels()._name.rpartition("/")[2]
    whole = path.read_bytes()
    lengths = [0, 1, 64, 4096, len(whole) - 1, *(rnd.randrange(len(whole)) for _ in range(20))]
    changed = [whole[:length] for length in lengths] + [whole + b"\0", os.urandom(len(whole))]
    for _ in range(100):
        place, flipped = rnd.randrange(len(whole)), bytearray(whole)
        flipped[place] ^= 1 << rnd.randrange(8)
        changed.append(bytes(flipped))
    for content in changed:
        path.write_bytes(content)
        with pytest.raises(LibraryFault, match=f"{path.name} is refused: it is not the library that was compiled"):
            load(path, 0)


@needs_kernels
@pytest.mark.parametrize("text", [None, b"", b"\xff", b"0", b"one two three\n"])
def test_a_library_without_its_record_is_refused(installed, text):
    path = installed / kernels()._name.rpartition("/")[2]
    record_of(path).unlink()
    if text is not None:
        record_of(path).write_bytes(text)
    with pytest.raises(LibraryFault, match=f"whose hash is in {record_of(path).name}"):
        load(path, 0)


@needs_kernels
def test_process_with_truncated_library_continues_without_kernels(installed):
    """Without this check of the file, the system ends a process that reads missing parts."""
    for path in installed.glob("*.so"):
        os.truncate(path, path.stat().st_size // 2)
    program = (
        "from pathlib import Path\nfrom marless.functions.native.kernels import kernels\n"
        f"kernels(Path({str(installed)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("marless.functions.errors.MissingExtra: ")


def require_same_or_refused(folder, *flags, name="hasty", command=None):
    """Compile with flags that come last. Each library gives the same answers as ours, or is refused."""
    before = ARITHMETIC.read()
    files, fault = kernel_build.build(folder, command=wrapper(folder / name, *flags, command=command))
    if fault:
        assert "failed" in fault and not files
        return
    for path in files[::2]:
        try:
            library = load(path, sources_digest(SOURCE.parent))
        except LibraryFault as error:
            assert name in str(error) and ARITHMETIC.read() == before
            continue
        assert ARITHMETIC.read() == before
        if library is None:  # for another processor
            continue
        with np.errstate(all="ignore"):
            for seed in range(500):
                expected = sum_of(random_calls.answers(kernels(), seed))
                assert sum_of(random_calls.answers(library, seed)) == expected, (flags, seed)


@pytest.mark.conformance
@needs_compiler
@pytest.mark.parametrize("flags", FAST + FAST_ON_X86 * (platform.machine() == "x86_64"))
def test_each_fast_float_kind_is_refused_or_harmless(tmp_path, flags):
    require_same_or_refused(tmp_path, *flags.split())


@pytest.mark.conformance
@pytest.mark.skipif(not find_spec("ziglang"), reason="pip install ziglang")
@pytest.mark.parametrize("flags", FAST_OF_CLANG)
def test_other_compiler_fast_floats_are_refused_or_harmless(tmp_path, flags):
    zig = [sys.executable, "-m", "ziglang", "cc"]
    require_same_or_refused(tmp_path, *flags.split(), name="zig", command=zig)


@pytest.mark.conformance
@needs_compiler
@pytest.mark.parametrize("seed", range(8))
def test_random_unsafe_flags_are_refused_or_harmless(tmp_path, seed):
    rnd = random.Random(seed)
    flags = " ".join(rnd.sample(FAST, rnd.randint(2, 6))).split()
    require_same_or_refused(tmp_path, rnd.choice(["-O0", "-O1", "-O2", "-O3"]), *flags)


@pytest.mark.slow
@needs_compiler
def test_compiler_with_default_fast_floats_gives_exact_kernels(tmp_path):
    files, fault = kernel_build.build(tmp_path, command=[*kernel_build.compiler(), "-ffast-math", "-ffinite-math-only"])
    assert fault == "" and not wrong_answers(open_library(files[2]))
    assert kernels(tmp_path).runs_here()
