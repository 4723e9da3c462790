"""The undisturbed reference run of all kill tests."""

import pytest
from driver import train
from killed_runs import OPTIONS


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    return train(tmp_path_factory.mktemp("undisturbed"), OPTIONS, workers=2)
