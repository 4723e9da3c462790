"""Tests of the kernels that were compiled where the program was installed."""

import pytest

from functions.contract import MissingExtra
from functions.nn.native.kernels import kernels
from infra.packaging.kernel_build import compiler


def _are_built():
    try:
        return bool(kernels())
    except MissingExtra:
        return False


# Where a compiler could have built them, tests fail without.
needs_kernels = pytest.mark.skipif(not compiler() and not _are_built(), reason="there is no C compiler")
