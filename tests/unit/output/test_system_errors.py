"""A refusal by the system comes with the advice for its cause: a full disk, or too many open files."""

import errno
import gc
import os
import pwd
import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest

from marless.functions.errors import StorageFault
from marless.functions.system_errors import ADVICE, explain
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.sqlite_ledger import SqliteLedger
from marless.runs.folder import RunFolder
from marless.studies import decisions
from marless_cluster.remote.faults import DialInError
from marless_cluster.remote.tokens import token_file


@contextmanager
def no_more_files():
    """In this process all numbers for files are in use, even after garbage is collected."""
    gc.collect()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


WRITERS = {
    "a file of a run": lambda folder: RunFolder(folder).write("bill.json", b"{}"),
    "a study": lambda folder: decisions.write(folder, []),
    "an object": lambda folder: FileStorage(folder).put("a", b""),
    "the ledger": lambda folder: SqliteLedger(folder / "ledger.sqlite"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_too_many_open_files_are_no_full_disk(tmp_path, writer):
    # Modules and files that are loaded only once are loaded here.
    (tmp_path / "before").mkdir()
    WRITERS[writer](tmp_path / "before")
    with no_more_files(), pytest.raises(StorageFault) as refused:
        WRITERS[writer](tmp_path)
    assert "ulimit -n" in str(refused.value) and "disk" not in str(refused.value)


def test_run_that_cannot_be_locked_names_file(tmp_path):
    """Like on a disk that was full before the run began, where the first bytes are the lock's."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(StorageFault, match=r"\.lock: File too large"), RunFolder(tmp_path).driving():
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("cause", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_so(cause):
    assert "free disk space" in explain(OSError(cause, os.strerror(cause)))


def test_cause_without_advice_has_that_of_caller():
    fault = OSError(errno.EIO, "Input/output error")
    assert explain(fault) == "Input/output error; check the disk and the folder"
    assert explain(fault, "") == "Input/output error"
    assert len(set(ADVICE.values())) == len(ADVICE)


# flock(73) on x86-64 and 32 on aarch64 is refused with ENOLCK, as file systems without locks refuse it: seccomp(2).
WITHOUT_LOCKS = """
import ctypes, errno, os, platform, struct, sys
number = {"x86_64": 73, "aarch64": 32}[platform.machine()]
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | errno.ENOLCK), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
program = struct.pack("@HP", len(rows), ctypes.addressof(code))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
from marless.cli.app import main
sys.exit(main(["train", "--run", "first", "stop.rounds=1"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the filter of system calls is one of Linux")
def test_file_system_without_locks_is_one_line(tmp_path):
    command = [sys.executable, "-c", WITHOUT_LOCKS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, line.partition("; ")[2]) == (
        2, "its file system has no locks; work in a folder of a local disk, or mount it with locks"
    )  # fmt: skip
    assert line.startswith("marless: cannot write runs/first/.lock: ") and not (tmp_path / "runs" / "first").exists()


@pytest.fixture
def homeless(shell):
    """A user without an entry in the system's list of users. No variables name this user's folders."""
    shell.unset("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "MARLESS_TOKEN")
    if os.getuid():
        pytest.skip("only root becomes another user")
    free = next(number for number in range(54321, 60000) if not _has_name(number))
    os.setresuid(free, 0, 0)
    yield
    os.setresuid(0, 0, 0)


def _has_name(number):
    try:
        return bool(pwd.getpwuid(number))
    except KeyError:
        return False


def test_user_without_home_learns_to_name_token(homeless):
    with pytest.raises(DialInError, match="no home folder: name a file by --token-file, or set MARLESS_TOKEN"):
        token_file(os.environ)


def test_user_without_home_trains_with_own_code(homeless, marless):
    assert marless.train("first", "task.name=pettingzoo:mpe2.simple_spread_v3:parallel_env", "stop.rounds=1").code == 0
