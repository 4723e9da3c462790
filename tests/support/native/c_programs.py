"""Programs of the tests in C, compiled as the kernels are."""

import subprocess
from pathlib import Path

import pytest

from marless.functions.native.variants import FLAGS
from marless.infra.packaging.kernel_build import compiler

FOLDER = Path(__file__).parents[2] / "unit" / "native"
PROGRAM_FLAGS = tuple(flag for flag in FLAGS if flag not in ("-O3", "-DNDEBUG"))

needs_compiler = pytest.mark.skipif(not compiler(), reason="there is no C compiler")


def compiled(name, program, *flags, command=None):
    """The program `name` of the folder of tests, written to the path `program`."""
    sources = [str(FOLDER / f"{name}.c"), "-o", str(program), "-lm", "-ldl"]
    subprocess.run([*(command or compiler()), *PROGRAM_FLAGS, *flags, *sources], check=True)
    return program
