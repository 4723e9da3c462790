"""Language models that this machine keeps, each once, by the hash of its bytes.

Runs link to these files and never to a user's file, so they keep their model if the user changes that file. Files here
are written once. An altered file is noticed, and made again.
"""

import logging
import os
import shutil
from collections.abc import Callable
from functools import cache
from hashlib import file_digest
from pathlib import Path

from marless.functions import keys
from marless.program import cache_folder

_LOGGER = logging.getLogger("marless.language")
_READ_ONLY = 0o444


def sha256_of(path: Path) -> str:
    """Of a file, which is read once for all runs of a study. Raises `OSError`."""
    stat = path.stat()
    return _sha256(path, (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))


@cache
def _sha256(path: Path, version: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def copy_of(source: Path) -> Path:
    """This machine's own copy of a file. Raises `OSError`."""
    path = _place(sha256_of(source))
    return path if _is_whole(path) else _new_file(lambda part: shutil.copyfile(source, part))


def cached_file(request: str, make: Callable[[Path], object]) -> Path:
    """The file that a `request` with this hash asks for: `make` writes it into a new file unless it is here. Raises
    the errors of `make`, and `OSError`."""
    record = _folder() / f"{request}.sha256"
    if record.is_file() and _is_whole(path := _place(record.read_text(encoding="ascii", errors="replace").strip())):
        return path
    path = _new_file(make)
    part = _part()
    part.write_text(path.stem, encoding="ascii")
    part.replace(record)
    return path


def may_be_linked(path: Path, user_path: str | None) -> bool:
    """Return whether a file is one of these, and not the one at `user_path`, also by another link."""
    return path.parent == _folder() and not (user_path and path.samefile(user_path))


def _is_whole(path: Path) -> bool:
    if not path.is_file():
        return False
    if sha256_of(path) == path.stem:
        return True
    _LOGGER.warning("%s was altered; it is made anew, and runs that had it will name it", path)
    path.unlink()
    return False


def _new_file(write: Callable[[Path], object]) -> Path:
    """A new file, under its hash."""
    part = _part()
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        write(part)
        part.chmod(_READ_ONLY)
        path = _place(sha256_of(part))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _folder() -> Path:
    return cache_folder().absolute() / "models"


def _place(sha256: str) -> Path:
    return _folder() / f"{sha256}{keys.OBJECT_SUFFIX}"


def _part() -> Path:
    """A file that is being written. No other process uses this name meanwhile."""
    return _folder() / f".{os.getpid()}-{os.urandom(4).hex()}"
