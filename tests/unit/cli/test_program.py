"""Suggested commands begin with words that the user's shell knows."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from marless import extras
from marless.cli.app import main
from marless.cli.typed_lines import as_typed_here
from marless.program import as_typed, pip_name, program_name

ENVIRONMENT = Path(sys.prefix)


@pytest.fixture
def elsewhere(shell, tmp_path):
    """The environment is not active, and the shell is in another folder."""
    shell.export(PATH=os.defpath)
    shell.cd(tmp_path)


def test_active_environment_calls_programs_by_name():
    assert (program_name(), pip_name()) == ("marless", "pip")


def test_inactive_environment_calls_programs_from_its_folder(elsewhere, shell):
    shell.cd(ENVIRONMENT.parent)
    bin_ = f"{ENVIRONMENT.name}/bin"
    assert (program_name(), pip_name()) == (f"{bin_}/marless", f"{bin_}/pip")


def test_other_environment_calls_programs_by_path(shell, tmp_path):
    shell.cd(tmp_path)
    own, other = ENVIRONMENT / "bin", tmp_path / "other"
    other.mkdir()
    for name in ("marless", "pip"):
        (other / name).touch(0o755)
    shell.export(PATH=f"{other}{os.pathsep}{own}")
    assert (program_name(), pip_name()) == (str(own / "marless"), str(own / "pip"))
    for name in ("marless", "pip"):
        (other / name).unlink()
        (other / name).symlink_to(own / name)
    assert (program_name(), pip_name()) == ("marless", "pip")


def test_elsewhere_they_are_called_by_their_whole_paths(elsewhere):
    words = shlex.split(f"{program_name()} {pip_name()}")
    assert words == [str(ENVIRONMENT / "bin/marless"), str(ENVIRONMENT / "bin/pip")]


def test_suggested_commands_can_be_typed(elsewhere, capsys):
    assert main(["runs"]) == 0
    assert capsys.readouterr().out == f"no runs here; start one with: {program_name()} train\n"
    assert main(["status", "none"]) == 2
    assert f"`{program_name()} runs` lists them" in capsys.readouterr().err
    commands = extras.install("smac").split(" or ")
    assert len(commands) == 2 and all(command.startswith(f"{pip_name()} install ") for command in commands)


def test_lines_without_program_name_can_be_typed(elsewhere):
    said = as_typed_here("it has failed; its log: marless cloud logs --function actor, or `marless resume first`")
    name = program_name()
    assert said == f"it has failed; its log: {name} cloud logs --function actor, or `{name} resume first`"
    assert as_typed_here("no torch: pip install 'marless[learner]'") == f"no torch: {extras.install('learner')}"
    # Packages next to an extra are named once.
    packages = "'marless[smac]' 'smac @ git+https://github.com/oxwhirl/smac'"
    assert (
        as_typed_here(f"no smac: pip install {packages}; and maps")
        == f"no smac: {pip_name()} install {packages}; and maps"
    )
    for text in ("written by another version of marless: 3", "/opt/marless train", f"{program_name()} train"):
        assert as_typed_here(text) == text


@pytest.mark.parametrize("pip", ["v/bin/pip", "/v/bin/pip", "'/a folder/bin/pip'", "uv pip"])
def test_line_with_pip_path_stays_unchanged(pip):
    line = f"marless replay needs packages that are not installed: {pip} install 'marless[report]'"
    assert as_typed_here(line) == line


def test_a_path_with_a_space_is_one_word():
    assert shlex.split(as_typed(Path("/a folder/marless"))) == ["/a folder/marless"]


def test_help_ends_with_first_manual_page(capsys):
    assert main(["help"]) == 0
    *_, line = capsys.readouterr().out.splitlines()
    assert Path(line).read_text("utf-8").startswith("# MARLess\n")
