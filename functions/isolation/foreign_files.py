"""The files of others that this process has loaded or read, with hashes of the bytes that it got.

Python tells an audit hook of each file before it opens it. The hook hashes the file at that moment, so that an edit
after the import changes nothing. A user's module is always compiled from its source. Otherwise Python takes a stale
cache for a fresh one if a file of the same size was edited within a second.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import source_from_cache
from math import inf
from threading import local
from typing import Any

from marless.functions.isolation import file_names
from marless.functions.isolation.foreign_imports import SeenModules, is_trusted

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# A file that was changed so short a time ago may change again without a later time stamp.
_RACY_NS = 50_000_000
# So many files are told, at most, and so many that were only written.
_MOST, _MOST_WRITTEN = 5_000, 1_000


class ForeignFiles:
    """The files of others that this process has loaded and read, from `watch` on or within `watching`."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._reported: dict[str, dict[str, str]] = {}
        self._stamps: dict[str, tuple[int, ...]] = {}
        # The paths of files that were read since the last news, and of the files of programs that this process starts.
        self._recent: dict[str, str] = {}
        self._programs: dict[str, str] = {}
        self._written: set[str] = set()
        # Path and value of each module when Python loaded it, from the first task on.
        self._modules: dict[str, tuple[str, str]] = {}
        # Since when other processes may write for this one, in nanoseconds.
        self._children_since: float = inf
        self._seen = SeenModules()
        self._folder = ""
        self._ignored: tuple[str, ...] = ()
        self._is_watching = self._has_hook = False
        self._thread = local()
        self._hears: dict[str, Callable[..., None]] = {
            "open": self._hear_open,
            "exec": self._hear_module,
            "import": lambda name, path, *_: self._read(path),
            "ctypes.dlopen": self._read,
            "os.rename": lambda before, after, *_: self._write(after),
            "sqlite3.connect": self._hear_database,
            "subprocess.Popen": self._hear_start,
            **dict.fromkeys(("os.fork", "os.forkpty", "os.posix_spawn", "os.system"), self._hear_child),
        }

    def watch(self) -> None:
        """From now on this process serves tasks alone."""
        with suppress(FileNotFoundError):  # the folder was removed
            self._folder = os.getcwd()
        self._seen.fresh()
        self._is_watching = True
        if not self._has_hook:
            self._has_hook = True
            sys.addaudithook(self._hear)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within the block this process serves a task."""
        self.watch()
        try:
            yield
        finally:
            self._look_at_modules()
            self._is_watching = False

    def news(self, reader: str = "") -> dict[str, str]:
        """Return names and values of new and changed files since the last call for this reader.

        A file that was changed since it was opened has two values, because either of them may have been read.
        """
        self._look_at_modules()
        with self._busy():
            for path in (*self._recent.values(), *self._programs.values()):
                self._read(path)
        self._recent.clear()
        reported = self._reported.setdefault(reader, {})
        if reported == self._values:
            return {}
        news = {name: value for name, value in self._values.items() if reported.get(name) != value}
        reported |= news
        return news

    def forget(self) -> None:
        """Another run begins in this process. It tells the files that it reads, and the modules that are loaded."""
        files = map(_file_of, [*sys.modules.values()] if self._modules else ())  # thousands in some processes
        names = {os.path.basename(path) for path, _ in self._modules.values()}
        paths = {_absolute(file) for file in files if os.path.basename(file) in names}
        loaded = {name: value for name, (path, value) in self._modules.items() if path in paths}
        self._values = {f"{file_names.LOADED}{name}": value for name, value in loaded.items()}
        self._stamps.clear()
        self._written.clear()
        self._children_since = inf

    def ignore(self, folder: str) -> None:
        """Files below this folder are the run's own."""
        if (prefix := folder.rstrip(os.sep) + os.sep) not in self._ignored:
            self._ignored = (*self._ignored, prefix)

    def take_over(self, values: Mapping[str, str]) -> None:
        """The process that kept an answer, which is used here, had these files."""
        for name, value in values.items():
            self._add(f"{file_names.KEPT}{name}", value)

    def values(self) -> dict[str, str]:
        """Return names and values of all files so far."""
        return {
            name: value
            for name, value in self._values.items()
            if value != file_names.WRITTEN and not name.startswith((file_names.KEPT, file_names.LOADED))
        }

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        hear = self._hears.get(event)
        if hear is not None and (self._is_watching or event == "exec") and not getattr(self._thread, "is_busy", False):
            with self._busy():
                hear(*arguments)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Within the block this thread opens files itself."""
        self._thread.is_busy = True
        try:
            yield
        finally:
            self._thread.is_busy = False

    def _hear_open(self, path: Any, mode: str | None, flags: int) -> None:
        """Raises `OSError` for the cache of a user's module, which Python then compiles from its source."""
        if not isinstance(path, str | bytes):
            return
        if (path := _absolute(path)).endswith(".pyc"):
            with suppress(ValueError, NotImplementedError):  # it is no cache
                if self._name(source_from_cache(path)):
                    raise FileNotFoundError(path)
                return
        is_written = bool(flags & _WRITES) if mode is None else any(letter in mode for letter in "wax+")
        (self._write if is_written else self._read)(path)

    def _hear_module(self, code: Any) -> None:
        """A module's code runs, also between two runs, for instance by `importlib.reload`."""
        path = getattr(code, "co_filename", "")
        if path.endswith(".py") and code.co_name == "<module>":
            name = self._name(path := _absolute(path))
            if name and (value := file_names.value_of(path)) is not None:
                self._modules[name] = path, value
                self._values.pop(f"{file_names.LOADED}{name}", None)

    def _hear_start(self, executable: Any, words: Any, folder: Any, environment: Any) -> None:
        """A program is started: it consists of the files that its command names and of the modules that they import
        there."""
        from marless.functions.isolation.imported_sources import (  # with the parser of Python
            beside_script,
            drop_racy_cache,
        )

        self._hear_child()
        words = words if isinstance(words, list | tuple) else (words,)
        for word in (executable, *(part for text in words if isinstance(text, str) for part in text.split())):
            path = _absolute(os.path.join(os.fsdecode(folder or ""), word)) if isinstance(word, str) else ""
            if os.path.isfile(path):
                for program in (path, *(beside_script(path) if path.endswith(".py") else ())):
                    drop_racy_cache(program)
                    self._programs[program] = program
                    self._read(program)

    def _hear_database(self, database: Any, *_: Any) -> None:
        """SQLite opens its files by itself, and writes them unless it is told otherwise."""
        path, options = [*os.fsdecode(database).removeprefix("file:").split("?", 1), ""][:2]
        if "mode=ro" in options or "immutable=1" in options:
            self._read(path)
            return
        for end in ("", "-journal", "-wal", "-shm"):
            self._write(f"{path}{end}")

    def _hear_child(self, *_: Any) -> None:
        self._children_since = min(self._children_since, time.time_ns())

    def _write(self, path: Any) -> None:
        if isinstance(path, str | bytes) and (name := self._name(_absolute(path))):
            was_read = name in self._values
            self._let_go(name)
            if was_read or len(self._written) <= _MOST_WRITTEN:
                self._values[name] = file_names.WRITTEN

    def _let_go(self, name: str) -> None:
        self._written.add(name)
        self._values.pop(name, None)

    def _read(self, path: Any) -> None:
        if not isinstance(path, str | bytes):
            return
        path = _absolute(path)
        name = self._name(path)
        if not name or name in self._written or (len(self._values) >= _MOST and name not in self._values):
            return
        self._recent[name] = path
        stamp = _stamp(path)
        if stamp and self._stamps.get(name) == stamp:
            return
        if max(stamp, default=0) > self._children_since and not file_names.is_code(name) and path not in self._programs:
            self._let_go(name)
        elif (value := file_names.value_of(path)) is not None:
            self._add(name, value)
            self._stamps[name] = stamp if time.time_ns() - max(stamp, default=0) > _RACY_NS else ()

    def _add(self, name: str, value: str) -> None:
        before = self._values.get(name, value)
        # An answer that was not told of other bytes before may have come from both.
        is_reported = any(report.get(name) == before for report in self._reported.values())
        self._values[name] = value if before in (value, file_names.ABSENT) or is_reported else f"{before}, {value}"

    def _look_at_modules(self) -> None:
        with self._busy():
            for name in self._seen.fresh():
                if "." not in name and not is_trusted(name):
                    self._add_package(name, sys.modules.get(name))

    def _add_package(self, name: str, module: Any) -> None:
        folders = [folder for folder in getattr(module, "__path__", ()) if isinstance(folder, str)]
        places = folders or [file for file in (getattr(module, "__file__", None),) if isinstance(file, str)]
        if any(map(file_names.installed_package, places)):
            with suppress(OSError):
                self._add(f"{file_names.PACKAGE}{name}", file_names.package_value(name, places))
            return
        for folder in folders:
            for path in file_names.data_below(folder):
                self._read(path)

    def _name(self, path: str) -> str:
        return "" if path.startswith(self._ignored) else file_names.file_name(path, self._folder)


def _absolute(path: str | bytes) -> str:
    return os.path.abspath(os.fsdecode(path))


def _file_of(module: Any) -> str:
    """The file of a module, or ''. A module that loads its content late is left alone."""
    file = getattr(module, "__dict__", {}).get("__file__")
    return file if isinstance(file, str) else ""


def _stamp(path: str) -> tuple[int, ...]:
    """Return values that differ between two states of a file, its times last. The result is empty for an absent
    file."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


FOREIGN_FILES = ForeignFiles()
