"""Removes folders of runs, and what a removal, an archive or its unpacking leaves where it is cut short.

What is being made or removed has a hidden name, so that nothing takes it for a run, and is locked as long as a process
is at work on it: without a lock it is a leftover.
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

# What each is left by, the first word of its name.
REMOVED, ARRIVING, ARCHIVING = "removed", "arriving", "archiving"
_HIDDEN = re.compile(rf"\.(?:{REMOVED}|{ARRIVING}|{ARCHIVING})-(?P<name>.*)-[0-9a-f]{{8}}")


def hidden(path: Path, doing: str) -> Path:
    """A new name beside `path` for what is not yet there, or not any more."""
    return path.with_name(f".{doing}-{path.name}-{secrets.token_hex(4)}")


@contextmanager
def at_work(path: Path) -> Iterator[None]:
    """Keeps others from taking this file or folder for a leftover, by whatever name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # without locks everything counts as at work
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def discard(path: Path) -> None:
    """Deletes a file or a folder, which another process may be deleting too; raises `OSError`."""
    if path.is_dir() and not path.is_symlink():
        while path.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove(folder: Path, delete: Callable[[Path], None] = discard) -> None:
    """Removes a folder with its files by `delete`, never what links in it point to; raises `UserError` for a link, and
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
    """What commands that were cut short have left in a folder: of everything, or of what had this name."""
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
    except OSError:  # somebody else has removed it meanwhile, or it is nobody's business here
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a lock of another process, or a disk without locks: nothing says that nobody needs it
        return True
    finally:
        os.close(descriptor)
    return False
