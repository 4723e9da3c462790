"""Removes folders of runs, and the leftovers of interrupted removals, archives and unpackings.

A file or folder in progress has a hidden name, so that it is never taken for a run. A process locks it while it works
on it, and without a lock it is a leftover.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from marless.coordinator.errors import UserError

# The action that leaves it, the first word of its name.
REMOVED, ARRIVING, ARCHIVING = "removed", "arriving", "archiving"
_HIDDEN = re.compile(rf"\.(?:{REMOVED}|{ARRIVING}|{ARCHIVING})-(?P<name>.*)-[0-9a-f]{{8}}")


def hidden(path: Path, doing: str) -> Path:
    """Return a new name next to `path` for a file that is being made or removed."""
    return path.with_name(f".{doing}-{path.name}-{secrets.token_hex(4)}")


@contextmanager
def at_work(path: Path) -> Iterator[None]:
    """Lock this file or folder, so that other processes do not take it for a leftover."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # without locks everything counts as active
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def discard(path: Path) -> None:
    """Delete a file or a folder, even if another process deletes it too. Raises `OSError`."""
    if path.is_dir() and not path.is_symlink():
        while path.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove(folder: Path, delete: Callable[[Path], None] = discard) -> None:
    """Remove a folder with its files by `delete`, but no targets of its links. Raises `UserError` for a link, and
    `OSError`."""
    if folder.is_symlink():
        raise UserError(
            f"{folder} is a link to {folder.readlink()}; remove the link by hand, and name what it points to"
        )
    real = folder.resolve()
    going = hidden(real, REMOVED)
    with at_work(real):
        real.rename(going)
        delete(going)


def leftovers(parent: Path, name: str = "") -> list[Path]:
    """Return the leftovers of interrupted commands in a folder: all, or only those with this name."""
    return sorted(
        path
        for path in parent.glob(".*-*")
        if (match := _HIDDEN.fullmatch(path.name))
        and name in ("", match["name"])
        and not path.is_symlink()
        and not _is_at_work(path)
    )


def _is_at_work(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # another process has removed it meanwhile, or it belongs to another user
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a lock of another process, or a disk without locks: the file may be in use
        return True
    finally:
        os.close(descriptor)
    return False
