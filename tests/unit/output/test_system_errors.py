"""What the system refuses is said with the advice for that cause: a full disk, or too many open files."""

import errno
import gc
import os
import resource
from contextlib import contextmanager

import pytest

from functions.errors import StorageFault
from functions.system_errors import ADVICE, explain
from infra.local.file_storage import FileStorage
from infra.local.sqlite_ledger import SqliteLedger
from marless.runs.folder import RunFolder
from marless.studies import decisions


@contextmanager
def no_more_files():
    """This process can open no other file, nor find a number that a forgotten one gives back meanwhile."""
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
    # What is imported or opened only once is so before.
    (tmp_path / "before").mkdir()
    WRITERS[writer](tmp_path / "before")
    with no_more_files(), pytest.raises(StorageFault) as refused:
        WRITERS[writer](tmp_path)
    assert "ulimit -n" in str(refused.value) and "disk" not in str(refused.value)


def test_a_run_that_cannot_even_be_locked_names_the_file(tmp_path):
    """As on a disk that was full before the run began: the first bytes are those of its lock."""
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


def test_a_cause_without_advice_of_its_own_has_the_caller_s():
    fault = OSError(errno.EIO, "Input/output error")
    assert explain(fault) == "Input/output error; check the disk and the folder"
    assert explain(fault, "") == "Input/output error"
    assert len(set(ADVICE.values())) == len(ADVICE)
