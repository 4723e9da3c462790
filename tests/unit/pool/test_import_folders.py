"""Folders from which another process imports, whatever their names are."""

import subprocess
import sys
from pathlib import Path

import pytest

from functions.environments.pettingzoo.factory import EnvironmentFault, module_of
from functions.resources.kinds.function import named_function
from functions.resources.kinds.kind import NoAnswer
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


@pytest.mark.parametrize("file", ["functions.py", "infra/__init__.py", "coordinator.py"])
def test_a_script_beside_a_module_of_our_names_trains(tmp_path, file):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("raise RuntimeError('a file of the user was imported')")
    (tmp_path / "script.py").write_text(
        "import marless\nrun = marless.train(stop={'rounds': 1}, quiet=True, workers=1)\nprint(run.summary.rounds)"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1:], done.stderr) == (0, ["1"], "")


def test_a_module_of_our_name_that_was_imported_before_is_named(tmp_path):
    (tmp_path / "functions.py").write_text("")
    (tmp_path / "script.py").write_text("import functions\nimport marless\n")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {tmp_path / 'functions.py'} has the name of a package of marless: rename it,"
        " or import marless first"
    )


@pytest.mark.parametrize("line", ["from functions import goal", "import functions.goal", "import infra.goal.b"])
def test_code_of_the_user_that_imports_a_module_of_our_name_is_told_so(tmp_path, shell, line):
    (tmp_path / "an_environment_of_mine.py").write_text(line)
    shell.import_from(tmp_path)
    with pytest.raises(EnvironmentFault, match=r"(functions|infra) is a package of marless, so a module of yours"):
        module_of("pettingzoo:an_environment_of_mine:make", "an_environment_of_mine")
    with pytest.raises(NoAnswer, match="is a package of marless"):
        named_function("an_environment_of_mine:make")
