"""Files that are replaced atomically, so that a kill leaves either the old or the new file."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from marless.coordinator.errors import UserError
from marless.functions.errors import StorageFault
from marless.functions.system_errors import explain


def replace(path: Path, body: bytes, durable: bool = False) -> None:
    """Replace the content of `path` with `body`. On `OSError` the file is unchanged.

    `durable`: returns once the file would survive a power loss.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(body)
        if durable:
            sync(temporary)
        temporary.replace(path)
        if durable:
            sync(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def cache(path: Path, body: bytes) -> None:
    """Replace a file below the user's cache folder. If it is read-only, or the user has no home folder, the call has no
    effect."""
    if path.is_absolute():
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace(path, body)


def write_for_user(path: Path, body: bytes) -> None:
    """Replace a file that the user named. Raises `UserError` if it cannot be written."""
    try:
        replace(path, body)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


@contextmanager
def storage_errors(where: str | Path) -> Iterator[None]:
    """Raises `StorageFault`, which says `where`, in place of an `OSError`."""
    try:
        yield
    except OSError as error:
        raise StorageFault(f"cannot write {where}: {explain(error)}") from error


def sync(path: Path) -> None:
    """Return once a file, or a folder's list of entries, would survive a power loss. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
