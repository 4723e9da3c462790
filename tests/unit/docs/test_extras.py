"""The extras have one table, which `pyproject.toml`, `marless doctor` and the page about installing share."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from marless import extras
from marless.cli.app import main
from scripts.reference import installing

ROOT = Path(__file__).parents[3]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


def test_doctor_and_page_explain_every_installable_extra(capsys):
    assert extras.EXTRAS.keys() == DECLARED.keys()
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["extras"].keys() == DECLARED.keys()
    assert main(["doctor"]) == 0
    lines, page = capsys.readouterr().out.splitlines(), installing.page()
    for name, (what, _) in extras.EXTRAS.items():
        assert [line for line in lines if re.fullmatch(rf"{name} +{re.escape(what)} +(installed|missing)", line)]
        assert f"| `{name}` | {what} |" in page


def test_doctor_fits_eighty_columns_except_commands_and_paths(capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith(("to add ", "disk free "))] == []


@pytest.mark.parametrize("name", extras.EXTRAS)
def test_extra_command_names_extra_or_packages(name, shell):
    shell.cd(ROOT)
    words = shlex.split(extras.install(name).partition(" or ")[0])
    assert words[:2] == ["pip", "install"]
    assert words[-1] == f".[{name}]" or words[2] == f"marless[{name}]"


def test_command_outside_source_tree_says_where_it_is(shell, tmp_path):
    shell.cd(tmp_path)
    words = ["pip", "install", "-e", f"{ROOT}/packages/marless-tasks", "-e", f"{ROOT}[lbf]"]
    assert shlex.split(extras.install("lbf")) == words


def test_missing_module_names_extra_that_brings_it(shell):
    shell.cd(ROOT)
    error = ModuleNotFoundError("No module named 'moto'", name="moto")
    assert extras.lacking(error) == (
        "the package moto is not installed; the extra emulated brings it: pip install -e ./packages/aws-emulator"
        " -e '.[emulated]'"
    )
