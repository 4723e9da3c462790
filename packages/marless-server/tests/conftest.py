"""The fixtures of runs, and a lab with two owners."""

import pytest
from requests_to_labs import TestLab
from run_fixtures import *  # noqa: F403


@pytest.fixture
def lab(tmp_path):
    with TestLab(tmp_path / "server") as lab:
        yield lab
