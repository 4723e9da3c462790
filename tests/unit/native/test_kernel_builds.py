"""One source, one result: whatever compiles the kernels, for whatever processor."""

import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from c_programs import compiled, needs_compiler

from functions.contract import MissingExtra
from functions.nn.native.kernels import kernels
from functions.nn.native.variants import SOURCE, VARIANTS, library_name
from infra.packaging import kernel_build

ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="instruction sets of x86")
ZIG = [sys.executable, "-m", "ziglang", "cc"]
# What train.c prints, by every compiler below and on every processor: hashes of five networks with tanh and relu, and
# with norms, after forty steps of Adam.
HASHES = """
45861ab50509d4db 76278494dfeef14f f9547ce218c1d061 e9c332d40171a562
d204b4cde6202955 d350125e4a643736 31b4e570b2f664d1 5cdbf28f26fbfb51
fa97474ee5a64198 6e287940b34a76da 4257333111c32c67 e0ffdbf3c133af70
88b79616dd5066fe 8f5c376b85b346ff 063cb73928a18a35 ec5eed556552abaf
9b0d60327f48466c 3de2dd78e757a16b cf82585aeec29a84 2a49ae3395bd3a4e
"""


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@needs_compiler
def test_this_machine_comes_to_the_hashes_of_every_machine(tmp_path):
    assert printed(compiled("train", tmp_path / "train", "-O1", "-march=native")) == HASHES.split()


@pytest.mark.conformance
@needs_compiler
@ON_X86
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
@pytest.mark.parametrize("instructions", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_every_level_and_instruction_set_gives_the_same_bytes(tmp_path, level, instructions):
    program = compiled("train", tmp_path / "train", level, f"-march={instructions}")
    if instructions == "x86-64-v4" and not _has_avx512():
        pytest.skip("this processor has no AVX-512")
    assert printed(program) == HASHES.split()


@pytest.mark.conformance
@pytest.mark.skipif(not find_spec("ziglang"), reason="pip install ziglang")
@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
@pytest.mark.parametrize(
    "target", ["x86_64-linux-musl -mcpu=x86_64_v2", "x86_64-linux-musl -mcpu=x86_64_v3", "aarch64-linux-musl"]
)
def test_another_compiler_and_another_architecture_give_the_same_bytes(tmp_path, level, target):
    program = compiled("train", tmp_path / "train", level, "-target", *target.split(), command=ZIG)
    machine, _, _ = target.partition("-")
    emulator = [] if machine == platform.machine() else [shutil.which(f"qemu-{machine}-static")]
    if emulator == [None]:
        pytest.skip(f"apt-get install qemu-user-static runs programs of {machine}")
    assert printed(*emulator, program) == HASHES.split()


@pytest.mark.conformance
@needs_compiler
def test_no_sanitizer_finds_anything(tmp_path):
    program = compiled(
        "train", tmp_path / "train", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"
    )
    assert printed(program) == HASHES.split()


@pytest.mark.slow
@needs_compiler
def test_what_is_built_is_loaded(tmp_path):
    _copy_source(tmp_path)
    libraries, fault = kernel_build.build(tmp_path)
    assert fault == "" and [path.name for path in libraries] == [*map(library_name, VARIANTS[platform.machine()])]
    assert kernels(tmp_path).runs_here()


def test_a_machine_without_a_compiler_is_told_so(tmp_path, shell):
    _copy_source(tmp_path)
    shell.export(PATH=str(tmp_path), CC="")
    libraries, fault = kernel_build.build(tmp_path)
    if not find_spec("ziglang"):
        assert not libraries and fault == "there is no C compiler (cc, or pip install ziglang)"
        with pytest.raises(MissingExtra, match="no kernels for this processor"):
            kernels(tmp_path)


@needs_compiler
def test_a_source_that_cannot_be_compiled_leaves_the_library_that_is_there(tmp_path):
    _copy_source(tmp_path)
    name = library_name(VARIANTS[platform.machine()][0])
    (tmp_path / name).write_bytes(b"earlier")
    (tmp_path / SOURCE.name).write_text("no C")
    libraries, fault = kernel_build.build(tmp_path)
    assert not libraries and "failed" in fault and (tmp_path / name).read_bytes() == b"earlier"


def _copy_source(folder):
    for file in SOURCE.parent.glob("*.[ch]"):
        shutil.copy(file, folder)


def _has_avx512():
    return "avx512bw" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
