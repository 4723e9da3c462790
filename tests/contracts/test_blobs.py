"""The contract of every storage adapter: `marless.functions.storage_port.Blobs` and
`marless.coordinator.drive.ports.Storage`."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from marless.functions.errors import CorruptObject, KeyTaken, NoSuchObject, StorageFault
from marless.infra.local.file_storage import FileStorage

# A writer process: on a line of input it puts twenty keys as fast as it can and prints the keys that it created.
CONTEST = """
from marless.functions.errors import KeyTaken
import sys
name = sys.stdin.readline().strip()
won = []
for number in range(20):
    try:
        client.put(f"contest/{number:02d}", name.encode() * 1000)
        won.append(number)
    except KeyTaken:
        pass
print(*won)
"""


@pytest.mark.parametrize(
    "body", [b"\0body\xff", b"", bytes(range(256)) * 40_000], ids=["some", "empty", "larger than any buffer"]
)
def test_what_was_put_is_what_is_got(blobs, body):
    blobs.put("rounds/000001/sample.safetensors", body)
    assert blobs.get("rounds/000001/sample.safetensors") == body
    assert blobs.list("") == ["rounds/000001/sample.safetensors"]


def test_an_object_of_another_size_is_not_read(blobs, monkeypatch):
    """Code of the tenant can store 5 GB under a key. A function that reads them dies without a word."""
    blobs.put("key", b"12345")
    assert blobs.get("key", 5) == b"12345"
    monkeypatch.setattr("botocore.response.StreamingBody.read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(CorruptObject, match="it has 5 bytes instead of 4"):
        blobs.get("key", 4)


@pytest.mark.parametrize("second", [b"other", b"first"])
def test_key_is_written_once_for_any_second_body(blobs, second):
    blobs.put("key", b"first")
    with pytest.raises(KeyTaken):
        blobs.put("key", second)
    assert blobs.get("key") == b"first"


def test_getting_what_nobody_put_is_no_such_object(blobs):
    with pytest.raises(NoSuchObject):
        blobs.get("rounds/000001/missing")


def test_the_start_of_a_key_is_no_object(blobs):
    blobs.put("rounds/000001/a", b"")
    with pytest.raises(NoSuchObject):
        blobs.get("rounds/000001")


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "../x", "a/../../x", "a/./b", "a//b", "a/", ".hidden", "a/.b", "a\0b"]
)
def test_key_outside_of_run_is_refused(blobs, key):
    for attempt in (lambda: blobs.put(key, b""), lambda: blobs.get(key), lambda: blobs.delete([key])):
        with pytest.raises(ValueError, match="is not a key"):
            attempt()


def test_keys_are_listed_by_prefix_in_order(blobs):
    for key in ("rounds/000002/b", "rounds/000010/a", "rounds/000001/c/d", "rounds/000001/a", "policies/a"):
        blobs.put(key, b"")
    assert blobs.list("rounds/00000") == ["rounds/000001/a", "rounds/000001/c/d", "rounds/000002/b"]
    assert blobs.list("rounds/000001/") == ["rounds/000001/a", "rounds/000001/c/d"]
    assert blobs.list("rounds/000010/a") == ["rounds/000010/a"]
    assert len(blobs.list("")) == 5
    assert blobs.list("nothing/here") == []


def test_keys_are_sorted_as_text_across_folders(blobs):
    for key in ("a/b", "a-b", "a.b"):
        blobs.put(key, b"")
    assert blobs.list("a") == ["a-b", "a.b", "a/b"]


def test_deleted_object_is_gone_and_missing_is_skipped(blobs):
    blobs.put("rounds/a", b"")
    blobs.put("rounds/b", b"")
    blobs.delete(["rounds/a", "rounds/missing", "rounds", "rounds/b/below"])
    assert blobs.list("") == ["rounds/b"]


def test_persisting_keeps_objects_and_misses_none(blobs):
    blobs.put("rounds/000001/a", b"body")
    blobs.persist(["rounds/000001/a"])
    blobs.persist([])
    assert blobs.get("rounds/000001/a") == b"body"
    with pytest.raises(NoSuchObject):
        blobs.persist(["rounds/000001/b"])


def test_one_of_forty_threads_writes_a_key(blobs):
    for number in range(5):
        won, start = [], threading.Barrier(40)

        def write(writer, number=number, won=won, start=start):
            start.wait()
            try:
                blobs.put(f"contest/{number}", bytes([writer]) * 10_000)
                won.append(writer)
            except KeyTaken:
                pass

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert blobs.get(f"contest/{number}") == bytes(won) * 10_000


def test_one_of_two_processes_writes_a_key(storage, blobs, python):
    writers = {name: python(storage.source + CONTEST) for name in "ab"}
    for name, writer in writers.items():
        writer.stdin.write(f"{name}\n")
        writer.stdin.flush()
    winner = {}
    for name, writer in writers.items():
        for number in writer.communicate(timeout=120)[0].split():
            assert number not in winner, "both writers won one key"
            winner[number] = name
    assert len(winner) == 20
    for number, name in winner.items():
        assert blobs.get(f"contest/{int(number):02d}") == name.encode() * 1000


def test_a_killed_writer_leaves_whole_objects_only(storage, blobs, python):
    source = "import itertools\nprint(flush=True)\nfor n in itertools.count(): client.put(f'big/{n}', b'x' * 4_000_000)"
    writer = python(storage.source + source)
    writer.stdout.readline()
    while len(blobs.list("big/")) < 3:
        pass
    writer.kill()
    writer.wait()
    assert {len(blobs.get(key)) for key in blobs.list("big/")} == {4_000_000}


class TestFiles:
    def test_writer_killed_before_publishing_blocks_no_one(self, tmp_path, python):
        source = f"""
import os
from pathlib import Path
from marless.infra.local.file_storage import FileStorage
os.link = lambda *_: os.kill(os.getpid(), 9)
FileStorage(Path({str(tmp_path)!r})).put("rounds/a", b"half")
"""
        assert python(source).wait(timeout=30) == -9
        assert len(list((tmp_path / "rounds").iterdir())) == 1, "the test must leave something unfinished behind"
        blobs = FileStorage(tmp_path)
        assert blobs.list("") == []
        blobs.put("rounds/a", b"whole")
        assert blobs.get("rounds/a") == b"whole"

    def test_a_refused_writer_leaves_nothing_behind(self, tmp_path):
        blobs = FileStorage(tmp_path)
        blobs.put("a", b"first")
        with pytest.raises(KeyTaken):
            blobs.put("a", b"second")
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    def test_full_disk_is_storage_fault_and_leaves_nothing(self, tmp_path, python):
        source = f"""
import resource, signal
from pathlib import Path
from marless.functions.errors import StorageFault
from marless.infra.local.file_storage import FileStorage
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
blobs = FileStorage(Path({str(tmp_path)!r}))
try:
    blobs.put("rounds/a", b"x" * 400_000)
except StorageFault as fault:
    print(fault)
blobs.put("rounds/b", b"x" * 1000)
"""
        said, _ = python(source).communicate(timeout=120)
        assert said.startswith(f"cannot store {tmp_path}/rounds/a: File too large; raise the file size limit")
        assert said.count("\n") == 1
        assert [path.name for path in (tmp_path / "rounds").iterdir()] == ["b"]

    def test_file_in_place_of_folder_is_storage_fault(self, tmp_path):
        blobs = FileStorage(tmp_path)
        blobs.put("a", b"")
        with pytest.raises(StorageFault, match="a file stands where a folder is needed"):
            blobs.put("a/b", b"")

    def test_folders_go_with_their_last_object(self, tmp_path):
        store = FileStorage(tmp_path / "objects")
        for key in ("rounds/000001/sample/a", "rounds/000001/learn/b", "rounds/000002/learn/c", "d"):
            store.put(key, b"")
        store.delete(["rounds/000001/sample/a", "rounds/000001/learn/b", "rounds/000003/learn/never"])
        store.settle()
        assert [path.name for path in (tmp_path / "objects/rounds").iterdir()] == ["000002"]
        store.delete(["rounds/000002/learn/c", "d"])
        store.settle()
        assert list((tmp_path / "objects").iterdir()) == []
        store.put("rounds/000001/sample/a", b"again")
        assert store.get("rounds/000001/sample/a") == b"again"

    def test_a_folder_with_an_unfinished_object_stays(self, tmp_path):
        store = FileStorage(tmp_path)
        store.put("rounds/a", b"")
        (tmp_path / "rounds/.other.tmp").touch()
        store.delete(["rounds/a"])
        store.settle()
        assert (tmp_path / "rounds/.other.tmp").is_file()

    def test_concurrent_writers_and_removers_do_not_interfere(self, tmp_path):
        def work(number):
            store = FileStorage(tmp_path)
            for turn in range(100):
                key = f"rounds/{turn % 3}/learn/{number}-{turn}"
                store.put(key, b"body")
                assert store.get(key) == b"body"
                store.delete([key])
            store.settle()

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [None] * 8
        assert list(tmp_path.iterdir()) == []

    def test_changed_current_folder_does_not_move_root(self, tmp_path, shell):
        shell.cd(tmp_path)
        blobs = FileStorage(Path("run/blobs"))
        (tmp_path / "elsewhere").mkdir()
        shell.cd(tmp_path / "elsewhere")
        blobs.put("a", b"body")
        assert (tmp_path / "run/blobs/a").read_bytes() == b"body"
