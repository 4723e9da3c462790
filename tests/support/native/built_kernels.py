"""Tests of the kernels that were compiled where the program was installed."""

import pytest

from functions.contract import MissingExtra
from functions.nn.native.kernels import kernels


def _are_built():
    try:
        return bool(kernels())
    except MissingExtra:
        return False


needs_kernels = pytest.mark.skipif(not _are_built(), reason="no kernels were compiled for this processor")
