"""Named, versioned items in one SQLite file: the ledger of the local back-end."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marless.functions.errors import StaleVersion, StorageFault
from marless.functions.messages.message import Record
from marless.functions.system_errors import explain
from marless.infra.local.file_storage import sync

# How long a statement waits for another process's write.
_BUSY_S = 5.0

_TABLE = "CREATE TABLE IF NOT EXISTS items (item TEXT PRIMARY KEY, version INTEGER NOT NULL, body BLOB NOT NULL)"
_TABLES = "SELECT 1 FROM sqlite_master WHERE name = 'items'"
_LOAD = "SELECT version, body FROM items WHERE item = ?"
_CREATE = "INSERT INTO items (item, version, body) VALUES (?, 1, ?) ON CONFLICT (item) DO NOTHING"
_REPLACE = "UPDATE items SET version = version + 1, body = ? WHERE item = ? AND version = ?"

_ADVICE = {
    sqlite3.SQLITE_FULL: "free disk space and try again",
    sqlite3.SQLITE_BUSY: "another process holds it; end that process and try again",
    sqlite3.SQLITE_NOTADB: "it is not a ledger; restore it or start another run",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore it or start another run",
    sqlite3.SQLITE_CANTOPEN: "check that the folder exists and may be written",
    sqlite3.SQLITE_READONLY: "check the permissions of the file and its folder",
    sqlite3.SQLITE_IOERR: "check the disk (space, quota, file size limit) and try again",
}

# The name of the ledger's file in a run's folder.
LEDGER_FILE = "ledger.sqlite"


class SqliteLedger:
    """The items of one run in the file `path`, created with its folder if missing.

    Several processes may have it open, while one object belongs to one thread. A commit survives the end of this
    process (write-ahead log), and a power loss only after `persist`. Errors of SQLite raise `StorageFault`. With
    `read_only` every commit does, and no file is created.
    """

    def __init__(self, path: Path, read_only: bool = False, busy_s: float = _BUSY_S) -> None:
        self._path, self._read_only = path.absolute(), read_only
        with self._faults("open"):
            if read_only:
                self._connection = sqlite3.connect(_read_only_uri(self._path), busy_s, isolation_level=None, uri=True)
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=busy_s, isolation_level=None)
            try:
                _use_wal(self._connection)
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.execute(_TABLE)
            except sqlite3.Error:
                self._connection.close()
                raise

    def load(self, item: str) -> Record | None:
        """The item, or None."""
        with self._faults("read"):
            # An empty file is a ledger without a table until a process opens it for writing.
            tables = self._connection.execute(_TABLES).fetchone() if self._read_only else True
            row = self._connection.execute(_LOAD, (item,)).fetchone() if tables else None
        return None if row is None else Record(version=row[0], body=row[1])

    def commit(self, item: str, body: bytes, version: int) -> int:
        """Replaces version `version` of `item` (0: it must not exist yet) and returns the new version.

        One statement compares and writes, so of several writers with the same version one succeeds. The others get
        `StaleVersion`.
        """
        with self._faults("write"):
            if version == 0:
                row_count = self._connection.execute(_CREATE, (item, body)).rowcount
            else:
                row_count = self._connection.execute(_REPLACE, (body, item, version)).rowcount
        if row_count != 1:
            raise StaleVersion(f"{item} is no longer at version {version}: another process drives this run")
        return version + 1

    def persist(self) -> None:
        """Returns once all commits so far would survive a power loss.

        The checkpoint moves the log into the file and syncs both unless a reader blocks it. So the log and its folder
        are always synced here. The main file must not be opened here: closing it would drop SQLite's locks on it
        (sqlite.org/howtocorrupt.html, section 2.2).
        """
        with self._faults("persist"):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            for path in (self._path.with_name(f"{self._path.name}-wal"), self._path.parent):
                sync(path)

    def now(self) -> float:
        """Seconds since 1970 by this machine's clock."""
        return time.time()

    def close(self) -> None:
        """Closes the file. Idempotent."""
        self._connection.close()

    @contextmanager
    def _faults(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.DatabaseError as error:
            # The low byte is the primary result code. The rest names the system call.
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            advice = _ADVICE.get(code, "check the disk and the file")
            if code == sqlite3.SQLITE_CANTOPEN:
                advice = _refusal(self._path.parent) or advice
            raise StorageFault(f"cannot {doing} {self._path}: {error}; {advice}") from error
        except OSError as error:
            raise StorageFault(f"cannot {doing} {self._path}: {explain(error)}") from error


def _refusal(folder: Path) -> str:
    """Return the system's error for opening the folder, which SQLite hides, or ''."""
    try:
        os.close(os.open(folder, os.O_RDONLY))
    except OSError as error:
        return explain(error)
    return ""


def _read_only_uri(path: Path) -> str:
    """The URI for SQLite to open `path` read-only.

    A file in write-ahead mode that no process has open lacks a log file. SQLite would create one to read it, which
    fails in a read-only folder. The file then holds all commits, so it is opened as immutable (sqlite.org/wal.html,
    section 5).
    """
    at_rest = not path.with_name(f"{path.name}-wal").exists()
    return f"{path.as_uri()}?mode=ro{'&immutable=1' if at_rest else ''}"


def _use_wal(connection: sqlite3.Connection) -> None:
    """Sets write-ahead mode. Retries, because SQLite does not wait for this lock when two processes open a new file."""
    give_up = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.005)
