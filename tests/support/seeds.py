"""Every test that learns holds for all of these seeds: the first is a quick test, the others are under conformance."""

import pytest

each_seed = pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.conformance) for seed in range(1, 21))]
)
