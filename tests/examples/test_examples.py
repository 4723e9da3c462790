"""The examples run unmodified, with fewer rounds."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SHORT = {
    "compare_settings": {"rounds": 2, "seeds": range(1, 3)},
    "emulated_account": {"rounds": 1},
    "image_task": {
        "rounds": 1,
        "networks": ("cnn",),
        "evaluation": {"episodes": 2, "final_episodes": 2},
    },
    "own_algorithm": {"rounds": 2},
    "own_environment": {"rounds": 2},
    "own_rule": {"rounds": 3},
    "train_and_load": {"rounds": 2},
}


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SHORT.keys()


@pytest.mark.parametrize("name", SHORT)
def test_an_example_runs(name, tmp_path, shell, capsys, no_processes):
    shell.cd(tmp_path)
    shell.import_from(EXAMPLES)
    importlib.import_module(name).main(**SHORT[name])
    assert capsys.readouterr().out.strip()


def test_an_example_runs_as_a_program(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), str(ROOT)])}
    code = "import own_environment; own_environment.main(rounds=2)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)


@pytest.mark.parametrize("name", SHORT)
def test_an_example_is_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60
