"""Commands on a copy of finished runs."""

import shutil

import pytest


@pytest.fixture
def copies(trained, marless, no_processes):
    shutil.copytree(trained, "runs", symlinks=True)
