"""Another process imports from these folders, for any names."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from marless.functions.resources.serving.kinds.function import named_function
from marless.infra.local.processes.process_starters import worker_environment

ROOT = Path(__file__).parents[3]
LOOK = (
    "from marless.infra.local.processes.import_folders import add_last_folders; add_last_folders();"
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


@pytest.mark.parametrize("backend", ["inline", "local"])
def test_a_script_beside_files_of_common_names_trains(tmp_path, backend):
    (tmp_path / "infra").mkdir()
    for file in ("functions.py", "infra/__init__.py", "coordinator.py", "random.py"):
        (tmp_path / file).write_text("raise RuntimeError('a file of the user was imported')")
    (tmp_path / "script.py").write_text(
        f"import marless, sys\nrun = marless.train(stop={{'rounds': 1}}, quiet=True, workers=1, backend='{backend}')\n"
        "print(run.summary.rounds, {'functions', 'infra', 'coordinator'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1:], done.stderr) == (0, ["1 set()"], "")


def test_judge_in_file_of_common_name_is_asked(tmp_path, shell):
    (tmp_path / "functions.py").write_text("def grade(question):\n    return b'1'\n")
    shell.import_from(tmp_path)
    shell.forget("functions")
    assert named_function("functions:grade")(b"") == b"1"


@pytest.mark.parametrize("name", ["functions", "coordinator", "infra"])
def test_checkout_folder_is_no_second_module_copy(name):
    with pytest.raises(ImportError, match=f"{name} of MARLess is imported as marless.{name}"):
        import_module(name)
