"""Tests of the kernels that were compiled where the program was installed."""

import pytest

from marless.functions.native.kernels import are_built
from marless.infra.packaging.kernel_build import compiler

# Where a compiler could have built them, tests fail without.
needs_kernels = pytest.mark.skipif(not compiler() and not are_built(), reason="there is no C compiler")
