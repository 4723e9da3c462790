"""A virtual environment that was made in another folder is not taken for this one's."""

import shutil
import subprocess
import sys

import pytest

from marless.coordinator.errors import USER_ERROR
from marless.infra.packaging.package_build import ROOT

needs_make = pytest.mark.skipif(not shutil.which("make"), reason="there is no make")

# The first lines that pip writes if the path is long or has blanks.
LONG = """#!/bin/sh
'''exec' "{0}/.venv/bin/python" "$0" "$@"
' '''"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def checkout(folder, shebang):
    """A folder with an environment, where pip begins with this line."""
    program(folder / "scripts/setup", (ROOT / "scripts/setup").read_text())
    program(folder / ".venv/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program(folder / ".venv/bin/pip", shebang + "\nimport pip\n")
    (folder / ".venv-audit").mkdir()
    # It prints what it makes, and lets Python decide if the interpreter fits.
    program(folder / "maker", f'#!/bin/sh\ncase "$1" in -m) echo made "$@";; *) exec {sys.executable} "$@";; esac\n')
    return folder


def setup(folder):
    done = subprocess.run(["scripts/setup", "./maker"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", ["plain", "with a blank", "it's (one), 100 % $HOME"])
@pytest.mark.parametrize("line", ["#!{0}/.venv/bin/python3", LONG, LONG.replace('"', "")])
def test_an_environment_of_this_folder_is_kept(tmp_path, name, line):
    folder = tmp_path / name
    assert setup(checkout(folder, line.format(folder))) == ("", "")
    (tmp_path / "link").symlink_to(folder)
    assert setup(tmp_path / "link") == ("", "")
    assert (folder / ".venv-audit").is_dir()


@pytest.mark.parametrize("where", ["{0}/first/.venv", "{0}/first/copy/.venv2", "/usr", "{0}/first/copy2/.venv"])
def test_copied_or_moved_environment_is_made_again(tmp_path, where):
    copy = checkout(tmp_path / "first/copy", f"#!{where.format(tmp_path)}/bin/python3")
    made, said = setup(copy)
    assert made == "made -m venv --clear .venv\n"
    assert said == "setup: .venv was made in another folder and would run the program there: making it again\n"
    assert not (copy / ".venv-audit").exists()


def test_copied_link_leaves_its_environment_alone(tmp_path):
    first = checkout(tmp_path / "first", f"#!{tmp_path}/first/.venv/bin/python3")
    copy = tmp_path / "copy"
    shutil.copytree(first, copy)
    shutil.rmtree(copy / ".venv")
    (copy / ".venv").symlink_to(first / ".venv")
    assert setup(copy)[0] == "made -m venv --clear .venv\n"
    assert not (copy / ".venv").is_symlink() and (first / ".venv/bin/pip").is_file()


@needs_make
def test_stamps_of_another_folder_do_not_count(tmp_path):
    first, copy = tmp_path / "the first", tmp_path / "the copy"
    projects = (path.relative_to(ROOT) for path in ROOT.glob("packages/*/pyproject.toml"))
    for name in ("pyproject.toml", *projects, "constraints.txt", "hatch_build.py"):
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        (first / name).touch()
    shutil.copy(ROOT / "Makefile", first)
    stamps = first / ".venv/.stamps"
    stamps.mkdir(parents=True)
    (stamps / "python").write_text(f"{first}\n")
    (stamps / "use").touch()
    shutil.copytree(first, copy)
    (tmp_path / "link").symlink_to(first)
    planned = {
        folder: subprocess.run(["make", "-n", "install"], cwd=folder, capture_output=True, text=True, check=True).stdout
        for folder in (first, copy, tmp_path / "link")
    }
    assert ["scripts/setup" in text and "pip install" in text for text in planned.values()] == [False, True, False]


def test_script_of_copied_environment_is_refused_by_program(tmp_path):
    script = tmp_path / "copy/.venv/bin/marless"
    program(script, "import sys; from marless.cli.app import main; sys.exit(main())")
    (tmp_path / "marless").symlink_to(script)
    command = [sys.executable, script, "--version"]
    assert subprocess.run(command).returncode == 0
    (tmp_path / "copy/.venv/pyvenv.cfg").touch()
    line = f"marless: {tmp_path}/copy/.venv was copied from {sys.prefix} and would run the program there; make it again"
    for command in ([sys.executable, script, "config"], [sys.executable, tmp_path / "marless", "--version"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (USER_ERROR, "") and done.stderr.startswith(line)


@pytest.mark.parametrize("folder", ["ablations", "comparison", "exports", "runs", "studies"])
def test_program_folders_change_no_import_order(folder, tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / folder).mkdir()
    (tmp_path / "test_settings.py").write_text(
        f"import pytest\nfrom {folder} import setting\n\nfrom marless import train\n"
    )
    done = subprocess.run(["ruff", "check", "--select", "I", "."], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "All checks passed!\n")
