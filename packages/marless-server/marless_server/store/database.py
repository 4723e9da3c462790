"""The file of a server: one thread writes it, and readers see whole transactions."""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from marless.coordinator.errors import UserError
from marless.functions.errors import StorageFault

_T = TypeVar("_T")
_Row = TypeVar("_Row", bound=msgspec.Struct)

FILE = "server.sqlite"
# Commands such as `marless serve owner add` write from another process.
_BUSY_MS = 10_000
_FIRST = """
CREATE TABLE IF NOT EXISTS owners (
    name TEXT PRIMARY KEY, weight REAL NOT NULL, at_once INTEGER, slot_seconds REAL, dollars REAL,
    code INTEGER NOT NULL, created_at TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL REFERENCES owners(name), digest BLOB NOT NULL, created_at TEXT NOT NULL,
    revoked TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, owner TEXT NOT NULL REFERENCES owners(name),
    task TEXT NOT NULL, algorithm TEXT NOT NULL, seed INTEGER NOT NULL, config TEXT NOT NULL, settings TEXT NOT NULL,
    limits TEXT NOT NULL, status TEXT NOT NULL, wish TEXT NOT NULL, reason TEXT NOT NULL, created_at TEXT NOT NULL,
    began_at TEXT NOT NULL, ended_at TEXT NOT NULL, round INTEGER NOT NULL, score REAL, dollars REAL NOT NULL,
    seconds REAL NOT NULL, served_s REAL NOT NULL, key TEXT, body TEXT NOT NULL, UNIQUE (owner, key)
) STRICT;
CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status, number);
CREATE INDEX IF NOT EXISTS runs_by_owner ON runs (owner, number);
CREATE TABLE IF NOT EXISTS remarks (run TEXT NOT NULL, time TEXT NOT NULL, text TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS remarks_by_run ON remarks (run);
CREATE TABLE IF NOT EXISTS usage (
    day TEXT NOT NULL, owner TEXT NOT NULL, slot_seconds REAL NOT NULL, dollars REAL NOT NULL, PRIMARY KEY (day, owner)
) STRICT;
CREATE TABLE IF NOT EXISTS audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, owner TEXT NOT NULL, token TEXT NOT NULL,
    action TEXT NOT NULL, subject TEXT NOT NULL
) STRICT
"""
_STUDIES = """
ALTER TABLE runs ADD COLUMN study TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN setting TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN rounds INTEGER;
CREATE INDEX runs_by_study ON runs (study)
"""
_ADMINISTRATION = """
ALTER TABLE owners ADD COLUMN admin INTEGER NOT NULL DEFAULT 0;
ALTER TABLE owners ADD COLUMN disk_gb REAL;
ALTER TABLE owners ADD COLUMN keep_days REAL;
ALTER TABLE runs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN keep INTEGER NOT NULL DEFAULT 0
"""
MIGRATIONS = (_FIRST, _STUDIES, _ADMINISTRATION)
"""Statements that bring a file from each version of its tables to the next. A later version adds to the end."""


class Database:
    """The SQLite file at `path`, made where there is none. Raises `StorageFault` where it cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path, self._local = path, threading.local()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="database")
        self._writer.submit(self._make).result()

    def write(self, change: Callable[[sqlite3.Connection], _T]) -> _T:
        """Make a change as one transaction, in the order of the calls. Errors of the change pass through."""
        return self._writer.submit(self._commit, change).result()

    def rows(self, kind: type[_Row], query: str, values: Sequence[object] = ()) -> list[_Row]:
        """Return the rows of a query, each as a `kind`. Raises `StorageFault`."""
        try:
            return fetch(self._connection(), kind, query, values)
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def close(self) -> None:
        """Finish the changes that wait."""
        self._writer.submit(lambda: self._connection().close()).result()
        self._writer.shutdown()

    def backup(self, path: Path) -> None:
        """Write a copy of the file as of now, also while a server runs. Raises `UserError` and `StorageFault`."""
        try:
            path.touch(0o600, exist_ok=False)
            self._connection().execute("VACUUM INTO ?", [str(path)])
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror or error}") from error
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _make(self) -> None:
        try:
            self._connection().execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            raise self._fault(error) from error
        self._commit(self._migrate)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Make the tables of this version. Raises `StorageFault` for the file of a newer version."""
        version, latest = connection.execute("PRAGMA user_version").fetchone()[0], len(MIGRATIONS)
        if version > latest:
            raise StorageFault(
                f"{self._path} has version {version} of the tables, and this program knows {latest}. Update"
                " marless-server"
            )
        for script in MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {latest}")

    def _commit(self, change: Callable[[sqlite3.Connection], _T]) -> _T:
        connection = self._connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = change(connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._fault(error) from error
        return result

    def _connection(self) -> sqlite3.Connection:
        if not hasattr(self._local, "connection"):
            connection = sqlite3.connect(self._path, isolation_level=None, timeout=_BUSY_MS / 1000)
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            self._local.connection = connection
        result: sqlite3.Connection = self._local.connection
        return result

    def _fault(self, error: sqlite3.Error) -> StorageFault:
        return StorageFault(f"{self._path} cannot be used: {error}")


def fetch(connection: sqlite3.Connection, kind: type[_Row], query: str, values: Sequence[object] = ()) -> list[_Row]:
    """Return the rows of a query, each as a `kind`."""
    rows: list[dict[str, Any]] = [dict(row) for row in connection.execute(query, tuple(values))]
    return [msgspec.convert(row, kind, strict=False) for row in rows]
