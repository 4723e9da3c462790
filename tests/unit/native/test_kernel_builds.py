"""One source gives one result with any compiler, for any processor."""

import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from built_kernels import copy_sources, needs_kernels
from c_programs import compiled, needs_compiler

from marless.functions.errors import MissingExtra
from marless.functions.native.kernels import kernels
from marless.functions.native.variants import SOURCE, VARIANTS, library_name, record_of, record_text
from marless.infra.packaging import function_kernels, kernel_build

ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="instruction sets of x86")
needs_zig = pytest.mark.skipif(not find_spec("ziglang"), reason="pip install ziglang")
ZIG = [sys.executable, "-m", "ziglang", "cc"]
# The output of train.c by every compiler below and on every processor. It has hashes of five networks with tanh, relu
# and norms, after forty steps of Adam, and hashes of the play of four kinds of networks.
HASHES = """
d228f36d02f0b0a1 cf8cae916fe62a32 ec1342c2188d571d 7edea4f27f772eff
dda24deeecb51641 6cca358a3d68a30f 43224907f9620866 310218125bb88c6c
6cc90b6f355c29d1 12c1b4e59ae1e25d fbfcf53b289c7310 c4e0fb430fad715c
ca882d9d17dfdc39 e416edffa4c17cf2 bfd3e2b465a2ee58 f8a691453b73bbab
1d73e0fa8e1384a5 20bda5a1fc469fd4 cd79c047ad64ae29 9540db4065be69b1
904e6b5b1d540e94 e94b5bdfca120694 8962c5054de7d803 f84d0f601624f0c0
2475679f8fd1c148 7525b2886ba7e7dd fcec8b28b68ea3e8 777bf2b1e57922af
"""
NO_WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wsign-conversion", "-Werror")
# So many shapes of rows does rows.c try.
SHAPES = "126"


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@needs_compiler
def test_machine_reaches_hashes_of_every_machine(tmp_path):
    assert printed(compiled("train", tmp_path / "train", "-O1", "-march=native", *NO_WARNINGS)) == HASHES.split()


@pytest.mark.conformance
@needs_compiler
@ON_X86
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
@pytest.mark.parametrize("instructions", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_every_level_and_instruction_set_gives_same_bytes(tmp_path, level, instructions):
    program = compiled("train", tmp_path / "train", level, f"-march={instructions}")
    if instructions == "x86-64-v4" and not _has_avx512():
        pytest.skip("this processor has no AVX-512")
    assert printed(program) == HASHES.split()


@pytest.mark.conformance
@needs_zig
@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
@pytest.mark.parametrize(
    "target", ["x86_64-linux-musl -mcpu=x86_64_v2", "x86_64-linux-musl -mcpu=x86_64_v3", "aarch64-linux-musl"]
)
def test_other_compiler_and_architecture_give_same_bytes(tmp_path, level, target):
    program = compiled("train", tmp_path / "train", level, "-target", *target.split(), command=ZIG)
    machine, _, _ = target.partition("-")
    emulator = [] if machine == platform.machine() else [shutil.which(f"qemu-{machine}-static")]
    if emulator == [None]:
        pytest.skip(f"apt-get install qemu-user-static runs programs of {machine}")
    assert printed(*emulator, program) == HASHES.split()


@pytest.mark.conformance
@needs_compiler
@pytest.mark.parametrize(("name", "answer"), [("train", HASHES), ("rows", SHAPES)])
def test_no_sanitizer_finds_anything(tmp_path, name, answer):
    program = compiled(name, tmp_path / name, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    assert printed(program) == answer.split()


@needs_compiler
def test_rows_of_any_action_count_are_written_alone(tmp_path):
    assert printed(compiled("rows", tmp_path / "rows", "-O0", "-march=native")) == [SHAPES]


# QEMU knows no AVX-512.
@pytest.mark.conformance
@ON_X86
@pytest.mark.skipif(not shutil.which("qemu-x86_64-static"), reason="apt-get install qemu-user-static")
@needs_kernels
@pytest.mark.parametrize(
    ("processor", "suitable"),
    [
        *(("Nehalem", "00"), ("SandyBridge", "00"), ("Haswell", "10"), ("max", "10")),
        *((f"Haswell,-{lacking}", "00") for lacking in ("movbe", "f16c", "abm", "fma", "avx2", "bmi1", "bmi2")),
    ],
)
def test_a_library_knows_which_processors_have_its_instructions(tmp_path, processor, suitable):
    program = compiled("suitable", tmp_path / "suitable", "-O1")
    libraries = [SOURCE.with_name(library_name(variant)) for variant in ("x86-64-v3", "x86-64-v4")]
    answers = [printed("qemu-x86_64-static", "-cpu", processor, program, str(library)) for library in libraries]
    assert answers == [[answer] for answer in suitable]


@ON_X86
@needs_kernels
@pytest.mark.skipif(not shutil.which("objdump"), reason="apt-get install binutils shows instructions")
def test_library_needs_no_newer_instructions_than_named():
    """Instructions of AVX begin with v, and the others are listed."""
    newer = re.compile(r"\t(v\w+|andn|bextr|bls\w+|bzhi|mulx|pdep|pext|rorx|[ls]zcnt|tzcnt|s[ah][rl]x|movbe|popcnt)\b")
    for variant in VARIANTS[platform.machine()]:
        library = SOURCE.with_name(library_name(variant))
        asking, computing = (
            subprocess.check_output(
                ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={name}", library], text=True
            )
            for name in ("runs_here", "network_train")
        )
        assert "cpuid" in asking and "call" not in asking
        assert newer.search(computing) and not newer.search(asking)


@pytest.mark.conformance
@needs_zig
@pytest.mark.parametrize(("machine", "of_header"), [("aarch64", 183), ("x86_64", 62)])  # elf.h
def test_function_kernels_are_small_and_reproducible(tmp_path, machine, of_header):
    once, again = (function_kernels.build(machine, tmp_path / name) for name in ("once", "again"))
    assert [file.read_bytes() for file in once] == [file.read_bytes() for file in again]
    for library in once[::2]:
        assert library.stat().st_size < 100_000
        assert int.from_bytes(library.read_bytes()[18:20], "little") == of_header
        assert machine != platform.machine() or kernels(library.parent).runs_here()


@pytest.mark.slow
@needs_compiler
def test_what_is_built_is_loaded(tmp_path):
    copy_sources(tmp_path)
    files, fault = kernel_build.build(tmp_path, command=[*kernel_build.compiler(), *NO_WARNINGS])
    libraries = [tmp_path / library_name(variant) for variant in VARIANTS[platform.machine()]]
    assert fault == "" and files == [file for library in libraries for file in (library, record_of(library))]
    assert kernels(tmp_path).runs_here()


@pytest.mark.skipif(bool(find_spec("ziglang")), reason="ziglang is a compiler")
def test_a_machine_without_a_compiler_is_told_so(tmp_path, shell):
    copy_sources(tmp_path)
    shell.export(PATH=str(tmp_path), CC="")
    libraries, fault = kernel_build.build(tmp_path)
    assert not libraries and fault == "there is no C compiler (cc, or pip install ziglang)"
    with pytest.raises(MissingExtra, match="no kernels for this processor"):
        kernels(tmp_path)


# For example a name that is left from another environment, a folder, and half a quote.
@pytest.mark.parametrize(
    ("cc", "said"),
    [
        ("clang-99", "clang-99 cannot be started: No such file or directory"),
        ("/tmp", "/tmp cannot be started: Permission denied"),
        ("/dev/null -O2", "/dev/null -O2 cannot be started: Permission denied"),
        ('gcc "', 'CC=gcc " is no command: No closing quotation'),
        ("true", "true wrote no library"),
        ("false", "false -march="),
        ("cc\\", "CC=cc\\ is no command: No escaped character"),
        ("one\ttwo 'a b'", "one two 'a b' cannot be started: No such file or directory"),
        ("\udcff", "'\\udcff' cannot be started: No such file or directory"),
    ],
)
def test_failing_compiler_is_named_in_one_line(tmp_path, shell, cc, said):
    copy_sources(tmp_path)
    shell.export(CC=cc)
    files, fault = kernel_build.build(tmp_path)
    assert not files and fault.startswith(said) and fault.isprintable()
    assert {path.suffix for path in tmp_path.iterdir() if path.is_file()} == {".c", ".h"}


@needs_compiler
@pytest.mark.parametrize("cc", ["", "  ", "\t\n"])
def test_an_empty_variable_names_no_compiler(shell, cc):
    shell.export(CC="")
    default = kernel_build.compiler()
    shell.export(CC=cc)
    assert default and kernel_build.compiler() == default


@needs_compiler
@pytest.mark.skipif(len(VARIANTS.get(platform.machine(), ())) < 2, reason="there is one instruction set")
def test_missing_instruction_set_leaves_the_others(tmp_path):
    source = tmp_path / SOURCE.name
    source.write_text("int nothing;")
    lacking, known = VARIANTS[platform.machine()]
    old = tmp_path / "old"
    old.write_text(f'#!/bin/sh\ncase "$*" in *{lacking}*) echo "no {lacking}" >&2; exit 1;; esac\nexec cc "$@"\n')
    old.chmod(0o755)
    files, fault = kernel_build.build(tmp_path, command=[str(old)], source=source)
    assert files[0].name == library_name(known) and fault == f"{old} -march={lacking} failed: no {lacking}"


@needs_compiler
@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_read_only_folder_has_no_kernels(tmp_path):
    copy_sources(tmp_path)
    tmp_path.chmod(0o555)
    files, fault = kernel_build.build(tmp_path)
    assert not files and fault == f"{tmp_path} cannot be written to: Permission denied"


@needs_compiler
def test_a_folder_that_is_gone_has_no_kernels(tmp_path):
    files, fault = kernel_build.build(tmp_path / "gone")
    assert not files and fault == f"{tmp_path}/gone cannot be written to: No such file or directory"


@needs_kernels
def test_a_library_of_other_sources_is_not_loaded(tmp_path):
    copy_sources(tmp_path)
    for file in (*SOURCE.parent.glob("*.so"), *SOURCE.parent.glob("*.sha256")):
        shutil.copy(file, tmp_path)
    assert kernels(tmp_path).sources() == kernels().sources() > 0
    (tmp_path / "lanes.h").write_text("/* other */")
    kernels.cache_clear()
    with pytest.raises(MissingExtra, match="no kernels for this processor that were compiled from these sources"):
        kernels(tmp_path)


@needs_kernels
def test_a_file_that_is_no_library_is_named(tmp_path):
    for variant in VARIANTS[platform.machine()]:
        library = tmp_path / library_name(variant)
        library.write_bytes(b"\x7fELF")
        record_of(library).write_text(record_text(b"\x7fELF", "cc"))
    with pytest.raises(
        MissingExtra, match=rf"{VARIANTS[platform.machine()][0]}.so, compiled by cc, cannot be loaded: "
    ):
        kernels(tmp_path)


@needs_compiler
def test_source_that_fails_to_compile_keeps_old_library(tmp_path):
    copy_sources(tmp_path)
    name = library_name(VARIANTS[platform.machine()][0])
    (tmp_path / name).write_bytes(b"earlier")
    source = tmp_path / SOURCE.name
    source.write_text("no C")
    libraries, fault = kernel_build.build(tmp_path, source=source)
    assert not libraries and "failed" in fault and (tmp_path / name).read_bytes() == b"earlier"


def _has_avx512():
    return "avx512bw" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
