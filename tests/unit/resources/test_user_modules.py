"""Functions that a configuration names, looked for without an import."""

import pytest

from marless.reports.user_code.user_modules import find_module, function_fault


@pytest.fixture
def module(tmp_path, shell):
    """Write a module that must not be run and that is found as `looked_for`. `path` may give another name."""
    shell.import_from(tmp_path)

    def write(source, path="looked_for.py"):
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{source}\nraise RuntimeError('looking must not run it')\n")
        return file

    return write


@pytest.mark.parametrize(
    "source",
    [
        "def grade(question): ...",
        "async def grade(question): ...",
        "class grade: ...",
        "grade = len",
        "from elsewhere import grade",
        "from elsewhere import other as grade",
        "try:\n    import numpy\nexcept ImportError:\n    def grade(question): ...",
        "if (grade := len): ...",
        "for grade in (len, max): ...",
        "def begin():\n    global grade\n    grade = len",
        "from elsewhere import *",
        "def __getattr__(name): return len",
        "globals()['gr' + 'ade'] = len",
        "import sys\nsetattr(sys.modules[__name__], 'gr' + 'ade', len)",
        "import sys\nsys.modules[__name__].__dict__.update(names)",
    ],
)
def test_function_exists_if_module_may_have_it(module, source):
    module(source)
    assert function_fault("looked_for:grade") == ""


@pytest.mark.parametrize(
    ("source", "nearest"),
    [
        ("def grade(question): ...", "; did you mean 'grade'?"),
        ("def other(question):\n    graed = 1", ""),
        ('"""graed"""', ""),
        ("class Judge:\n    def graed(self, question): ...", ""),
    ],
)
def test_function_impossible_in_module_is_missing(module, source, nearest):
    file = module(source)
    assert function_fault("looked_for:graed") == f"there is no 'graed' in {file}{nearest}"


def test_module_is_found_inside_its_package(module):
    module("", "a_package/__init__.py")
    module("def grade(question): ...", "a_package/judge.py")
    assert function_fault("a_package.judge:grade") == ""
    assert function_fault("a_package.jugde:grade") == "there is no module 'a_package.jugde'"
    assert function_fault("a_package.judge.grade:grade") == "there is no module 'a_package.judge.grade'"
    assert "no module 'no_such_package'" in function_fault("no_such_package.judge:grade")


def test_a_module_of_the_current_folder_is_found(module, tmp_path, shell):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "judge_of_this_folder.py").write_text("def grade(question): ...")
    assert "no module" in function_fault("judge_of_this_folder:grade")
    shell.cd(folder)
    assert function_fault("judge_of_this_folder:grade") == ""


def test_a_module_that_is_no_python_is_named(module):
    file = module("def grade(question) ...")
    assert function_fault("looked_for:grade").startswith(f"{file} cannot be read: ")


def test_module_without_source_is_left_to_import():
    assert function_fault("numpy._core._multiarray_umath:no_such_function") == ""


def test_module_is_found_in_namespace_folders(tmp_path, shell):
    shell.cd(tmp_path)
    (tmp_path / "plain" / "inner").mkdir(parents=True)
    (tmp_path / "plain" / "inner" / "judge.py").write_text("def grade(question): ...\n")
    assert find_module("plain.inner.judge").origin == str(tmp_path / "plain" / "inner" / "judge.py")
    assert function_fault("plain.inner.judge:grade") == ""
