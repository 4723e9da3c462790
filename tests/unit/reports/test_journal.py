import msgspec
import pytest
from ablated_runs import a_line

from marless.functions.errors import StorageFault
from marless.reports.journal import JsonLines, read


def line(round_, env_steps=None):
    return a_line(round_, env_steps=env_steps or 100 * round_, metrics={"critic/loss/g00": 0.5})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def rounds(path):
    return [line.round for line in read(path)]


def test_a_line_is_appended_for_every_round(path):
    journal = JsonLines(path)
    journal.record(line(1))
    journal.record(line(2))
    assert read(path) == [line(1), line(2)]
    assert path.read_bytes() == b"".join(msgspec.json.encode(line(n)) + b"\n" for n in (1, 2))


def test_missing_file_has_no_lines(path):
    assert read(path) == []


def test_round_recorded_twice_keeps_last_record(path):
    journal = JsonLines(path)
    for entry in (line(1), line(2), line(2, env_steps=7)):
        journal.record(entry)
    assert read(path) == [line(1), line(2, env_steps=7)]


def test_recording_earlier_round_rewinds_file(path):
    journal = JsonLines(path)
    for number in (1, 2, 3, 4):
        journal.record(line(number))
    journal.record(line(2))
    journal.record(line(3))
    assert rounds(path) == [1, 2, 3]


def test_new_journal_continues_earlier_file(path):
    JsonLines(path).record(line(1))
    again = JsonLines(path)
    again.record(line(1))
    again.record(line(2))
    assert rounds(path) == [1, 2]


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_half_line_of_killed_writer_is_replaced(path, cut):
    journal = JsonLines(path)
    journal.record(line(1))
    journal.record(line(2))
    path.write_bytes(path.read_bytes()[:-cut])
    assert rounds(path) == ([1, 2] if cut == 1 else [1])
    again = JsonLines(path)
    again.record(line(2))
    again.record(line(3))
    assert rounds(path) == [1, 2, 3]


def test_a_rewind_cut_short_loses_nothing(path, monkeypatch):
    journal = JsonLines(path)
    for number in (1, 2, 3):
        journal.record(line(number))
    monkeypatch.setattr(type(path), "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageFault, match="No space left on device"):
        journal.record(line(3))
    assert rounds(path) == [1, 2, 3]


def test_a_disk_that_takes_nothing_is_named(tmp_path):
    journal = JsonLines(tmp_path / "gone" / "metrics.jsonl")
    with pytest.raises(StorageFault, match=r"metrics\.jsonl"):
        journal.record(line(1))


def test_persisting_syncs_file_and_its_folder(path, monkeypatch):
    synced = []
    monkeypatch.setattr("marless.reports.journal.sync", synced.append)
    journal = JsonLines(path)
    journal.persist()
    assert synced == []
    journal.record(line(1))
    journal.persist()
    assert synced == [path, path.parent]
