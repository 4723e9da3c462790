"""Read files that a user names or that a run left, as bytes or values. All problems with a file are one error.

A name may lead to anything: an endless device, a pipe without a writer, a file of another program.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

from marless.coordinator.errors import UserError
from marless.functions.encoding import Undecodable, from_json

_T = TypeVar("_T")

# The largest file that is read whole: a run of 10^6 rounds writes as much, at a kilobyte each.
MOST_BYTES = 1 << 30


class UnreadableFile(UserError):
    """The file is missing, too large, damaged or no regular file. The message says which, and names it."""


class MissingFile(UnreadableFile, FileNotFoundError):
    """There is no such file."""


def read_file(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes. Raises `UnreadableFile`."""
    with open_file(path) as (file, size):
        if size > most:
            raise UnreadableFile(f"{path} cannot be read: it has {size:,} bytes, more than {most:,}")
        return file.read(size)


def read_end(path: Path, most: int) -> bytes:
    """Return the last bytes of a regular file, at most `most`. Raises `UnreadableFile`."""
    with open_file(path) as (file, size):
        file.seek(max(0, size - most))
        return file.read(most)


@contextmanager
def open_file(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file, and return it with its size in bytes. Raises `UnreadableFile`."""
    try:
        with open(path, "rb", opener=_open) as file:  # a `Path` takes no opener
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableFile(f"{path} cannot be read: it is no regular file")
            yield file, status.st_size
    except FileNotFoundError as error:
        raise MissingFile(f"{path} cannot be read: there is no such file") from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise UnreadableFile(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a file in UTF-8. Raises `UnreadableFile`."""
    try:
        return read_file(path, most).decode()
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{path} cannot be read: {error}") from error


def read_json(path: Path, kind: type[_T]) -> _T:
    """Return the value in a JSON file. Raises `UnreadableFile`."""
    try:
        return from_json(read_file(path), kind, str(path))
    except Undecodable as error:
        raise UnreadableFile(str(error)) from error


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
