"""Whole runs on the local back-end, small enough that one takes a fraction of a second."""

import pytest
from commands import train_in


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_in(tmp_path_factory.mktemp("trained"), "first")


@pytest.fixture(scope="session")
def train(tmp_path_factory):
    """Trains a small run and caches it by overrides and workers. The processes of all runs are the same ones."""
    from driver import SMALL
    from driver import train as drive
    from shared_pools import SharedPools

    pools, known = SharedPools(tmp_path_factory.mktemp("workers")), {}

    def once(*overrides, workers=1):
        if (overrides, workers) not in known:
            folder = tmp_path_factory.mktemp("run")
            settings = [*SMALL, "stop.rounds=4", *overrides]
            known[overrides, workers] = drive(folder, settings, workers, back_end=pools.back_end)
        return known[overrides, workers]

    yield once
    pools.close()
