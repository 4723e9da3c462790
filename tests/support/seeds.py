"""The seeds of every learning test: the first runs in the quick suite, the others in the conformance suite."""

import pytest


def slow(case):
    """A case, alone or a tuple, that is under conformance with every seed."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.conformance)


each_seed = pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.conformance) for seed in range(1, 21))]
)
