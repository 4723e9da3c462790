"""The undisturbed reference run of all kill tests, and the moments that they draw."""

import os
import random

import pytest
from driver import train
from killed_runs import OPTIONS

# Every run draws new moments. Set this to repeat the moments of a failure.
SEED = int(os.environ.get("CHAOS_SEED", random.SystemRandom().randrange(2**32)))


@pytest.fixture
def draw(request):
    print(f"CHAOS_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    return train(tmp_path_factory.mktemp("undisturbed"), OPTIONS, workers=2)
