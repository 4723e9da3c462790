"""Foreign files that a process has loaded and read."""

import hashlib
import importlib
import os
import py_compile
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from marless.functions.isolation.file_names import (
    ABSENT,
    LOADED,
    WRITTEN,
    data_below,
    file_name,
    found_file,
    package_value,
)
from marless.functions.isolation.foreign_files import ForeignFiles
from marless.functions.isolation.imported_sources import beside_script


@pytest.fixture
def user(tmp_path, shell):
    shell.cd(tmp_path)
    shell.import_from(tmp_path)
    return tmp_path


@pytest.fixture
def watched():
    files = ForeignFiles()

    def watch(task):
        with files.watching():
            task()
        return files.news()

    return watch


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return text


def imported(name):
    def task():
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        importlib.import_module(name)

    return task


def test_modules_their_helpers_and_data_are_told_once(user, watched):
    helper = write(user / "rewards_here.py", "GOAL = 1\n")
    data = write(user / "levels_here.txt", "3 1 2")
    module = write(user / "env_here.py", "from rewards_here import GOAL\nLEVELS = open('levels_here.txt').read()\n")
    expected = {"env_here.py": digest(module), "rewards_here.py": digest(helper), "levels_here.txt": digest(data)}
    assert watched(imported("env_here")) == expected
    assert watched(lambda: (user / "levels_here.txt").read_text()) == {}


def test_later_edited_file_has_other_value(user, watched):
    before = write(user / "levels_edited.txt", "1")
    path = user / "levels_edited.txt"
    assert watched(path.read_text) == {"levels_edited.txt": digest(before)}
    after = write(path, "2")
    assert watched(path.read_text) == {"levels_edited.txt": digest(after)}


def test_file_edited_between_readings_has_both_values(user, watched):
    path = user / "levels_both.txt"

    def task():
        path.read_text()
        path.rename(user / "levels_old.txt")
        os.link(user / "levels_new.txt", path)

    write(path, "1")
    write(user / "levels_new.txt", "2")
    assert watched(task) == {"levels_both.txt": f"{digest('1')}, {digest('2')}", "levels_old.txt": WRITTEN}


def test_module_edited_within_second_is_recompiled(user, watched):
    """Python compares whole seconds and sizes, so its cache keeps the old module."""
    path, old = user / "edited_within_the_second.py", "VALUE = 1\n"
    write(path, old)
    os.utime(path, ns=(0, 1_000_000_000))
    py_compile.compile(path)
    new = write(path, "VALUE = 2\n")
    os.utime(path, ns=(0, 1_500_000_000))
    assert watched(imported("edited_within_the_second")) == {"edited_within_the_second.py": digest(new)}
    assert sys.modules["edited_within_the_second"].VALUE == 2


def test_files_written_by_process_are_reported_as_written(user, watched):
    def task():
        (user / "written_here.txt").write_text("1")
        (user / "written_here.txt").read_text()
        subprocess.run([sys.executable, "-c", "open('written_there.txt', 'w').write('1')"], check=True)
        (user / "written_there.txt").read_text()

    assert watched(task) == {"written_here.txt": WRITTEN}


def test_file_read_then_written_is_reported_again(user, watched):
    content = write(user / "best_here.txt", "1")
    assert watched((user / "best_here.txt").read_text) == {"best_here.txt": digest(content)}
    assert watched(lambda: (user / "best_here.txt").write_text("2")) == {"best_here.txt": WRITTEN}
    assert watched((user / "best_here.txt").read_text) == {}


def test_a_database_counts_where_it_is_only_read(user, watched):
    def task(address):
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.execute("pragma user_version = 3" if "mode=ro" not in address else "pragma user_version")

    told = watched(lambda: task("file:levels_here.db"))
    assert told["levels_here.db"] == WRITTEN
    content = (user / "levels_here.db").read_bytes()
    (user / "book_here.db").write_bytes(content)
    assert watched(lambda: task("file:book_here.db?mode=ro")) == {
        "book_here.db": hashlib.sha256(content).hexdigest()[:12]
    }


def test_notes_in_package_folder_are_no_data(user):
    for name in ("README.md", "train.toml", "trials.ipynb", "nohup.out", "map.xml"):
        write(user / "package_here" / name, "1")
    assert [*data_below(str(user / "package_here"))] == [str(user / "package_here" / "map.xml")]


def test_early_loaded_module_is_reported_with_old_value(user):
    files, path = ForeignFiles(), user / "edited_in_a_notebook.py"
    old = write(path, "VALUE = 1\n")
    with files.watching():
        imported("edited_in_a_notebook")()
    assert files.news("one") == {"edited_in_a_notebook.py": digest(old)}
    new = write(path, "VALUE = 22\n")
    files.forget()
    assert files.news("two") == {f"{LOADED}edited_in_a_notebook.py": digest(old)}
    importlib.reload(sys.modules["edited_in_a_notebook"])
    files.forget()
    assert files.news("three") == {f"{LOADED}edited_in_a_notebook.py": digest(new)}
    del sys.modules["edited_in_a_notebook"]
    files.forget()
    assert files.news("four") == {}


def test_missing_file_that_is_looked_for_is_reported(user, watched):
    def task():
        with pytest.raises(FileNotFoundError):
            (user / "overrides.txt").read_text()

    assert watched(task) == {"overrides.txt": ABSENT}
    write(user / "overrides.txt", "1")
    assert watched((user / "overrides.txt").read_text) == {"overrides.txt": digest("1")}


def test_program_is_reported_with_modules_next_to_it(user, watched):
    program = write(user / "judge_program.py", "from rubric_beside import score\nprint(score)\n")
    rubric = write(user / "rubric_beside.py", "import json\nscore = 1\n")
    news = watched(lambda: subprocess.run([sys.executable, "judge_program.py"], check=True, stdout=subprocess.DEVNULL))
    assert news == {"judge_program.py": digest(program), "rubric_beside.py": digest(rubric)}
    assert beside_script(str(user / "judge_program.py")) == [str(user / "rubric_beside.py")]


def test_package_data_is_reported_before_opening(user, watched):
    write(user / "a_user_s_package" / "__init__.py", "")
    write(user / "a_user_s_package" / "scene.xml", "<a/>")
    write(user / "a_user_s_package" / "run.log", "1")
    news = watched(imported("a_user_s_package"))
    assert news == {"a_user_s_package/__init__.py": digest(""), "a_user_s_package/scene.xml": digest("<a/>")}


def test_installed_package_has_value_of_its_sources(user, watched, shell):
    place = user / "lib" / "site-packages"
    place.mkdir(parents=True)
    shell.import_from(place)
    write(place / "installed_here" / "__init__.py", "ONE = 1\n")
    (news,) = watched(imported("installed_here")).items()
    assert news == ("package installed_here", package_value("installed_here", [str(place / "installed_here")]))
    write(place / "installed_here" / "__init__.py", "ONE = 2\n")
    assert package_value("installed_here", [str(place / "installed_here")]) != news[1]


def test_files_have_the_same_name_on_every_machine(user):
    write(user / "packages" / "levels.txt", "")
    assert file_name(str(user / "packages" / "levels.txt"), str(user)) == "packages/levels.txt"
    assert found_file("packages/levels.txt", str(user)) == str(user / "packages" / "levels.txt")
    for path in ("/proc/cpuinfo", "/usr/lib/libm.so", json_file(), f"{user}/.cache/fonts.json", "/tmp/x/episode.xml"):
        assert file_name(path, str(user)) == ""


def json_file():
    return importlib.import_module("json").__file__


def test_looking_for_the_temporary_folder_waits_for_nothing(tmp_path):
    program = """
import tempfile
from marless.functions.isolation.foreign_files import FOREIGN_FILES
FOREIGN_FILES.watch()
print(tempfile.gettempdir())
"""
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert done.stdout.strip() == str(tmp_path)
