"""Claims on files that are still to be made: at most one process or thread of this machine holds one."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marless.functions.errors import StorageFault
from marless.functions.system_errors import explain


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Hold the only claim on `path` within the block, after waiting for it. A process that ends has none any more.

    The lock is on a hidden file next to it, which disappears with the claim. Raises `StorageFault`.
    """
    beside = path.with_name(f".{path.name}.claim")
    try:
        descriptor = _locked(beside)
    except OSError as error:
        raise StorageFault(f"cannot claim {path}: {explain(error)}") from error
    try:
        yield
    finally:
        # Removed while it is locked. A process that waited for this file sees that it is gone, and makes a new one.
        beside.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path: Path) -> int:
    """A descriptor of the file under this name, which has the only lock on it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_file_of(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_file_of(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
