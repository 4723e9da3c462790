"""The folder of an emulated account: its lock, and the address of its account.

An account holds a lock on a file in its folder. The kernel releases the lock when the holding process ends, even if it
is killed. So the files of a killed account are never mistaken for a running account.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from aws_emulator.encoding import Undecodable, from_json, to_json

ACCOUNT_NUMBER = "123456789012"


class Whereabouts(msgspec.Struct, frozen=True):
    """An account's endpoint, region, process id and operator credentials."""

    endpoint: str
    region: str
    key: str
    secret: str
    pid: int


class Lock:
    """An exclusive lock on a file. It ends with `release` or with the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, wait: bool = False) -> bool:
        """Tries to take the lock, or waits for it with `wait`. Returns whether it was taken."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Releases the lock. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class AccountFolder:
    """Paths and locks of the folder `root`, which need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.log = self.root / "account.log"
        self.functions = self.root / "logs"
        self._whereabouts = self.root / "account.json"

    def make(self) -> None:
        """Creates the folder with mode 0700, because it will hold credentials."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)

    def starting(self) -> Lock:
        """The lock held during a start, so that only one account starts."""
        return Lock(self.root / "starting.lock")

    def living(self) -> Lock:
        """The lock that the account holds while it runs."""
        return Lock(self.root / "living.lock")

    def alive(self) -> bool:
        """Return whether an account runs in this folder."""
        if not self.root.is_dir():
            return False
        lock = self.living()
        free = lock.take()
        lock.release()
        return not free

    def write_whereabouts(self, whereabouts: Whereabouts) -> None:
        """Writes the whereabouts atomically, readable by the folder's owner only."""
        new = self._whereabouts.with_suffix(".new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(to_json(whereabouts))
        new.replace(self._whereabouts)

    def forget(self) -> None:
        """Removes outdated whereabouts."""
        self._whereabouts.unlink(missing_ok=True)

    def whereabouts(self) -> Whereabouts | None:
        """The running account's whereabouts, or None until it answers."""
        with suppress(FileNotFoundError, NotADirectoryError, Undecodable):
            whereabouts = from_json(self._whereabouts.read_bytes(), Whereabouts)
            return whereabouts if self.alive() else None
        return None
