"""Commands on a copy of finished runs."""

import shutil

import pytest
from commands import Commands


@pytest.fixture
def marless(trained, tmp_path, shell, capfd, no_processes):
    """`marless` in a folder with copies of the runs in `trained`, a fixture of the module."""
    shell.cd(tmp_path)
    shutil.copytree(trained, "runs", symlinks=True)
    return Commands(capfd)
