"""A refusal by the system is one line that names the cause. It counts as a mistake of the user."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from marless.coordinator.errors import of_the_system, one_line
from marless.output import OUTPUT


@pytest.mark.parametrize("command", [["train"], ["runs"], ["status", "r"], ["evaluate", "r"]])
def test_runs_folder_that_is_dangling_link_is_named(marless, command):
    Path("runs").symlink_to("/scratch/nobody/runs")
    said = marless(*command)
    assert (said.code, said.err) == (2, ["marless: runs is a link to /scratch/nobody/runs, which is not there"])


@pytest.mark.parametrize("command", [["train"], ["runs"], ["status", "r"]])
def test_runs_folder_that_is_file_is_named(marless, command):
    Path("runs").write_text("", encoding="utf-8")
    said = marless(*command)
    assert (said.code, said.err) == (2, ["marless: runs is a file, not a folder"])


@pytest.mark.parametrize("command", [["train"], ["runs"], ["doctor"], ["config"], ["cloud", "deploy", "--yes"]])
def test_a_current_folder_that_was_deleted_is_named(marless, tmp_path, shell, command):
    gone = tmp_path / "gone"
    gone.mkdir()
    shell.cd(gone)
    gone.rmdir()
    said = marless(*command)
    assert said.code == 2 and "current folder was deleted" in said.err[0]
    assert marless("--version").code == 0


def test_a_study_may_not_lie_below_a_file(marless):
    Path("studies").write_text("", encoding="utf-8")
    Path("s.toml").write_text('seeds = "1"\n', encoding="utf-8")
    said = marless("study", "s.toml")
    assert (said.code, said.err) == (2, ["marless: studies is a file, not a folder"])


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free disk space"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "can only be read"),
        (errno.EMFILE, "ulimit -n"),
    ],
)
def test_system_limit_is_for_user_to_correct(number, advice):
    for error in (OSError(number, os.strerror(number)), OSError(number, os.strerror(number), "/x/y")):
        assert of_the_system(error)
        assert os.strerror(number) in one_line(error) and advice in one_line(error)
        assert "Errno" not in one_line(error)
    assert one_line(OSError(number, os.strerror(number), "/x/y")).startswith("/x/y: ")


def test_other_errors_of_the_system_are_internal():
    assert not of_the_system(OSError(errno.ECHILD, "No child processes"))


def test_exit_code_tells_that_output_was_lost(marless, monkeypatch):
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115
    monkeypatch.setattr("sys.stdout", full)
    said = marless("config")
    assert (said.code, said.err) == (2, ["marless: standard output cannot be written: No space left on device"])
    with suppress(OSError):
        full.close()
    monkeypatch.undo()
    assert OUTPUT.problem and marless("--version").code == 0


def test_user_named_run_is_found_and_quoted(marless):
    marless.train("r")
    Path("runs/r").rename("runs/a b")
    assert marless("status", "a b").code == 0
    said = marless("resume", "a b", "--workers", "1")
    assert "marless resume 'a b' stop.rounds=" in said.err[0]


def test_a_run_that_cannot_begin_leaves_no_folder(marless, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("marless.runs.beginning.store_inputs", full)
    said = marless.train("r")
    assert said.code == 2 and "free disk space" in said.err[0]
    assert list(Path("runs").iterdir()) == []
