"""Folders from which another process imports, whatever their names are."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra.local.processes.process_starters import worker_environment

ROOT = Path(__file__).parents[3]
LOOK = (
    "from infra.local.processes.import_folders import add_last_folders; add_last_folders();"
    " import my_module, random; print(my_module.WORD, random.__file__ != my_module.__file__)"
)


@pytest.mark.parametrize("name", ["run 12:30", "a:b:c", 'quoted"name', "plain"])
def test_a_worker_imports_modules_of_the_current_folder(tmp_path, shell, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "my_module.py").write_text("WORD = 'found'")
    (folder / "random.py").write_text("raise RuntimeError('this is not the library')")
    shell.cd(folder)
    done = subprocess.run([sys.executable, "-P", "-c", LOOK], env=worker_environment(1), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("found True\n", "")
