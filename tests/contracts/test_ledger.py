"""The contract of every ledger adapter: `marless.coordinator.drive.ports.Ledger`."""

import shutil
import sqlite3
import threading
import time

import pytest

from marless.functions.errors import StaleVersion, StorageFault
from marless.functions.messages.message import Record
from marless.infra.local.sqlite_ledger import SqliteLedger

# A writer process: forty commits, each on the version it just loaded. Prints how many succeeded.
CONTEST = """
import sys
from marless.functions.errors import StaleVersion
sys.stdin.readline()
won = 0
while won < 40:
    version = client.load("run").version
    try:
        client.commit("run", f"{version}".encode(), version)
        won += 1
    except StaleVersion:
        pass
print(won)
"""


def contents(ledger, item="run"):
    record = ledger.load(item)
    return record.version, record.body


def test_each_commit_replaces_the_body_and_counts_on(ledger):
    assert ledger.commit("run", b"a", 0) == 1
    assert contents(ledger) == (1, b"a")
    assert ledger.commit("run", b"b", 1) == 2
    assert ledger.commit("run", b"", 2) == 3
    assert contents(ledger) == (3, b"")


@pytest.mark.parametrize("version", [0, 1, 3, -1])
def test_version_other_than_stored_is_refused(ledger, version):
    ledger.commit("run", b"a", 0)
    ledger.commit("run", b"b", 1)
    with pytest.raises(StaleVersion):
        ledger.commit("run", b"c", version)
    assert contents(ledger) == (2, b"b")


def test_version_of_missing_item_is_refused(ledger):
    with pytest.raises(StaleVersion):
        ledger.commit("run", b"a", 1)
    assert ledger.load("run") is None


def test_item_tells_write_time_if_it_is_known(ledger):
    before = time.time()
    ledger.commit("run", b"a", 0)
    at = ledger.load("run").at
    assert at == 0.0 or before - 0.01 <= at <= time.time() + 0.01


@pytest.mark.parametrize("size", [300_000, 500_000, 2_000_000])
def test_a_body_of_any_size_is_kept(ledger, size):
    ledger.commit("run", b"a" * size, 0)
    assert ledger.commit("run", b"b" * size, 1) == 2
    assert contents(ledger) == (2, b"b" * size)
    assert ledger.commit("run", b"small again", 2) == 3
    assert contents(ledger) == (3, b"small again")


def test_one_of_forty_commits_of_a_version_wins(ledgers):
    ledger = ledgers.open()
    ledger.commit("run", b"", 0)
    won, start = [], threading.Barrier(40)

    def commit(number):
        mine = ledgers.open()
        start.wait()
        try:
            mine.commit("run", bytes([number]), 1)
            won.append(number)
        except StaleVersion:
            pass
        mine.close()

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert contents(ledger) == (2, bytes(won))
    ledger.close()


def test_items_change_independently(ledger):
    ledger.commit("a", b"1", 0)
    ledger.commit("b", b"2", 0)
    ledger.commit("a", b"3", 1)
    assert contents(ledger, "b") == (1, b"2")


def test_another_client_sees_every_commit(ledgers, ledger):
    other = ledgers.open()
    ledger.commit("run", b"a", 0)
    assert contents(other) == (1, b"a")
    other.commit("run", b"b", 1)
    with pytest.raises(StaleVersion):
        ledger.commit("run", b"c", 1)
    other.close()


def test_one_of_two_processes_commits_each_version(ledgers, ledger, python):
    ledger.commit("run", b"0", 0)
    writers = [python(ledgers.source + CONTEST) for _ in range(2)]
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    assert [writer.communicate(timeout=120)[0].strip() for writer in writers] == ["40", "40"]
    assert contents(ledger) == (81, b"80")


@pytest.mark.slow
def test_processes_opening_new_ledger_together_all_succeed(ledgers, python):
    # All finish their imports before the first process opens the ledger.
    ready = ledgers.source.replace("client =", "import sys\nprint(flush=True)\nsys.stdin.readline()\nclient =")
    source = ready + "client.load('run')\nprint('open')"
    openers = [python(source) for _ in range(4)]
    for opener in openers:
        opener.stdout.readline()
    for opener in openers:
        opener.stdin.write("\n")
        opener.stdin.flush()
    assert [opener.communicate(timeout=120)[0].strip() for opener in openers] == ["open"] * 4


def test_a_commit_survives_kill_9(ledgers, python):
    source = "client.commit('run', b'a', 0)\nclient.commit('run', b'b', 1)\nos.kill(os.getpid(), 9)"
    assert python(ledgers.source + source).wait(timeout=30) == -9
    ledger = ledgers.open()
    assert contents(ledger) == (2, b"b")
    ledger.close()


def test_closing_twice_is_harmless(ledgers):
    ledger = ledgers.open()
    ledger.persist()
    ledger.close()
    ledger.close()


class TestSqlite:
    def test_what_was_persisted_is_in_the_main_file(self, tmp_path):
        ledger = SqliteLedger(tmp_path / "ledger.sqlite")
        ledger.commit("run", b"state", 0)
        ledger.persist()
        (tmp_path / "copy").mkdir()
        shutil.copy(tmp_path / "ledger.sqlite", tmp_path / "copy")
        ledger.close()
        assert SqliteLedger(tmp_path / "copy/ledger.sqlite").load("run") == Record(version=1, body=b"state")

    def test_a_reader_does_not_hold_up_persisting(self, tmp_path):
        ledger = SqliteLedger(tmp_path / "ledger.sqlite")
        ledger.commit("run", b"a", 0)
        reader = sqlite3.connect(tmp_path / "ledger.sqlite")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM items").fetchone()
        ledger.commit("run", b"b", 1)
        ledger.persist()
        reader.close()
        assert ledger.load("run") == Record(version=2, body=b"b")

    def test_locked_ledger_is_storage_fault(self, tmp_path):
        ledger = SqliteLedger(tmp_path / "ledger.sqlite", busy_s=0.05)
        other = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageFault, match=r"cannot write .*ledger.sqlite: database is locked; another process"):
            ledger.commit("run", b"a", 0)
        other.execute("ROLLBACK")
        assert ledger.commit("run", b"a", 0) == 1

    def test_file_that_is_no_ledger_is_storage_fault(self, tmp_path):
        (tmp_path / "ledger.sqlite").write_bytes(b"something else" * 100)
        with pytest.raises(StorageFault, match="file is not a database; it is not a ledger"):
            SqliteLedger(tmp_path / "ledger.sqlite")

    def test_folder_that_cannot_be_made_is_storage_fault(self, tmp_path):
        (tmp_path / "run").write_bytes(b"")
        with pytest.raises(StorageFault, match="cannot open"):
            SqliteLedger(tmp_path / "run/ledger.sqlite")

    def test_full_disk_keeps_last_version_of_ledger(self, tmp_path, python):
        source = f"""
import resource, signal
from pathlib import Path
from marless.functions.errors import StorageFault
from marless.infra.local.sqlite_ledger import SqliteLedger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = SqliteLedger(Path({str(tmp_path / "ledger.sqlite")!r}))
ledger.commit("run", b"first", 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, -1))
try:
    ledger.commit("run", b"x" * 400_000, 1)
except StorageFault as fault:
    print(fault)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
print(ledger.load("run").body, ledger.commit("run", b"second", 1))
"""
        said = python(source).communicate(timeout=120)[0].splitlines()
        assert said[0].startswith(f"cannot write {tmp_path}/ledger.sqlite: ")
        assert said[1:] == ["b'first' 2"]

    def test_read_only_ledger_refuses_commits_and_creation(self, tmp_path):
        path = tmp_path / "ledger.sqlite"
        with pytest.raises(StorageFault):
            SqliteLedger(path, read_only=True).load("run")
        writer = SqliteLedger(path)
        writer.commit("run", b"a", 0)
        beside = SqliteLedger(path, read_only=True)
        writer.commit("run", b"b", 1)
        assert beside.load("run") == Record(version=2, body=b"b")
        beside.close()
        writer.close()
        after = SqliteLedger(path, read_only=True)
        assert after.load("run") == Record(version=2, body=b"b")
        with pytest.raises(StorageFault):
            after.commit("run", b"c", 2)
        after.close()
        assert list(tmp_path.iterdir()) == [path]
