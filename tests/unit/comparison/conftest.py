"""Runs of each test are in a separate folder."""

import pytest


@pytest.fixture(autouse=True)
def here(tmp_path, shell):
    shell.cd(tmp_path)
