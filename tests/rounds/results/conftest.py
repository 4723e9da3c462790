"""Commands on a copy of finished runs."""

import shutil

import pytest


@pytest.fixture
def copies(trained, marless, no_processes):
    """Copies of the runs in `trained`, a fixture of the module, in the folder of `marless`."""
    shutil.copytree(trained, "runs", symlinks=True)
