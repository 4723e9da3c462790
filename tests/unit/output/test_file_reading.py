"""A file that a user names may be anything. It is read within bounds or refused by name."""

import os
import signal

import pytest

from marless.coordinator.file_reading import MissingFile, UnreadableFile, read_end, read_file, read_json, read_text
from marless.functions.errors import CorruptObject
from marless.infra.local.file_storage import FileStorage
from marless.reports.attempts import AttemptLog
from marless.runs.folder import RunFolder


def pipe(path):
    os.mkfifo(path)


REFUSED = {
    "a pipe that nobody writes to": (pipe, "no regular file"),
    "a folder": (lambda path: path.mkdir(), "directory"),
    "a device without end": (lambda path: path.symlink_to("/dev/zero"), "no regular file"),
    "a loop of links": (lambda path: path.symlink_to(path), "symbolic links"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "no such file"),
    "more than it may have": (lambda path: path.write_bytes(bytes(11)), "11 bytes, more than 10"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_file_not_wholly_readable_is_refused_by_name(tmp_path, kind):
    path = tmp_path / "named"
    make, why = REFUSED[kind]
    make(path)
    with pytest.raises(UnreadableFile, match=f"named cannot be read: .*{why}"):
        read_file(path, 10)


def test_a_hole_of_a_terabyte_is_not_read(tmp_path):
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnreadableFile, match="more than"):
        read_file(tmp_path / "hole")
    assert read_end(tmp_path / "hole", 3) == b"\0\0\0"


@pytest.fixture
def impatient():
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.mark.usefixtures("impatient")
def test_pipe_in_place_of_file_blocks_no_one(tmp_path):
    for name in ("object", ".lock", "attempts.jsonl"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(CorruptObject, match="0 bytes instead of 7"):
        FileStorage(tmp_path).get("object", 7)
    assert not RunFolder(tmp_path).driven()
    AttemptLog(tmp_path / "attempts.jsonl").record([])


def test_impossible_file_name_is_refused(tmp_path):
    with pytest.raises(UnreadableFile, match="null byte"):
        read_file(tmp_path / "a\0b")


def test_missing_file_is_missing_for_python_too(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        read_json(tmp_path / "none", dict)
    assert isinstance(missing.value, MissingFile)


def test_unreadable_text_and_json_are_refused_by_name(tmp_path):
    path = tmp_path / "named"
    path.write_bytes(b'{"a": "\xff"}')
    for read in (read_text, lambda path: read_json(path, dict)):
        with pytest.raises(UnreadableFile, match=r"named cannot be read: .*utf-8"):
            read(path)
    path.write_bytes(b'{"a": 1}')
    assert read_text(path) == '{"a": 1}' and read_json(path, dict) == {"a": 1}
