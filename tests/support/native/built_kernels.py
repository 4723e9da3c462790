"""Tests of the kernels that were compiled where the program was installed."""

import shutil

import pytest

from marless.functions.native.kernels import are_built
from marless.functions.native.variants import SOURCE
from marless.infra.packaging.kernel_build import compiler

# Where a compiler could have built them, tests fail without.
needs_kernels = pytest.mark.skipif(not compiler() and not are_built(), reason="there is no C compiler")


def copy_sources(folder):
    left = shutil.ignore_patterns("*.py", "*.so", "*.sha256", "__pycache__")
    shutil.copytree(SOURCE.parent, folder, ignore=left, dirs_exist_ok=True)
