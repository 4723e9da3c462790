"""Whole runs on the local back-end, small enough that one takes a fraction of a second."""

import pytest


@pytest.fixture(scope="session")
def train(tmp_path_factory):
    """Trains a small run and caches it by overrides and workers."""
    from driver import SMALL
    from driver import train as drive

    known = {}

    def once(*overrides, workers=1):
        if (overrides, workers) not in known:
            folder = tmp_path_factory.mktemp("run")
            known[overrides, workers] = drive(folder, [*SMALL, "stop.rounds=4", *overrides], workers)
        return known[overrides, workers]

    return once
