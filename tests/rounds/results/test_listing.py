"""The list of runs: its index saves reads, but the runs' own files take precedence."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from commands import Commands, train_in

LONG_AGO = 1_700_000_000

_opened: list[str] = []


def _hear(event, arguments):
    if event == "sqlite3.connect":
        _opened.append(str(arguments[0]))


# A hook stays for the life of the process.
sys.addaudithook(_hear)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    for name, rounds in (("a", 2), ("b", 3)):
        train_in(folder, name, f"stop.rounds={rounds}")
    return folder


@pytest.fixture
def marless(trained, tmp_path, shell, capfd, no_processes):
    shell.cd(tmp_path)
    shell.export(XDG_CACHE_HOME=str(tmp_path / "cache"))
    shutil.copytree(trained / "runs", "runs", symlinks=True)
    settle()
    return Commands(capfd)


def settle():
    """The runs' files are old, because an index does not trust files of this moment yet."""
    for number, path in enumerate(sorted(Path("runs").rglob("*"))):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (LONG_AGO, LONG_AGO + number))


def listed(marless, *arguments):
    _opened.clear()
    said = marless("runs", "--json", *arguments)
    assert said.code == 0
    return {row["run"]: row.get("rounds") for row in map(json.loads, said.out)}, len(_opened)


def test_ledgers_are_opened_once(marless):
    assert listed(marless) == ({"a": 2, "b": 3}, 2)
    assert listed(marless) == ({"a": 2, "b": 3}, 0)
    shutil.copytree("runs/a", "runs/c")
    assert listed(marless) == ({"a": 2, "b": 3, "c": 2}, 1)
    shutil.rmtree("runs/b")
    assert listed(marless) == ({"a": 2, "c": 2}, 0)
    assert listed(marless, "a") == ({"a": 2}, 0)


def test_row_follows_ledger_over_index(marless):
    first = marless("runs").out
    assert marless("runs").out == first
    assert marless("resume", "a", "stop.rounds=4").code == 0
    settle()
    assert listed(marless)[0] == {"a": 4, "b": 3}
    # A ledger that was replaced, by one of the same size.
    Path("runs/b/ledger.sqlite").replace("runs/a/ledger.sqlite")
    os.utime("runs/a/ledger.sqlite", (LONG_AGO, LONG_AGO))
    rows = listed(marless)[0]
    assert rows["a"] == 3 and rows["b"] is None


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe{[", b'{"source_sha256": "another", "runs": {}}', None])
def test_an_index_that_cannot_be_read_is_none(marless, damage):
    before = marless("runs").out
    (index,) = Path("cache/marless").iterdir()
    index.unlink() if damage is None else index.write_bytes(damage)
    assert marless("runs").out == before
    assert listed(marless)[1] == 0


def test_unwritable_index_is_not_missed(marless):
    Path("cache").touch()
    assert listed(marless) == listed(marless) == ({"a": 2, "b": 3}, 2)


def test_very_recent_changes_are_not_indexed(marless):
    Path("runs/a/ledger.sqlite").touch()
    assert listed(marless)[1] == 2
    assert listed(marless)[1] == 1


def test_runs_of_a_study_are_listed(marless):
    Path("studies/mine").mkdir(parents=True)
    shutil.copytree("runs", "studies/mine/runs", symlinks=True)
    assert listed(marless, "mine")[0] == {"studies/mine/runs/a": 2, "studies/mine/runs/b": 3}
    said = marless("runs", "nobody")
    assert said.code == 2 and "there is no run, study or ablation nobody" in said.err[0]
