"""Copies of models that workers on other machines keep."""

import os

import pytest

from marless.functions.errors import StorageFault
from marless.infra.local.processes.remote_objects import folder_of_copies


def test_copies_are_never_kept_in_foreign_folder(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"marless-objects-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageFault, match="a link, or another user's"):
        folder_of_copies(tmp_path)
