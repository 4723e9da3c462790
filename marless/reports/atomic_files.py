"""Files that are replaced atomically, so that a kill leaves either the old or the new one."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def replace(path: Path, body: bytes, durable: bool = False) -> None:
    """Replaces the content of `path` with `body`; on `OSError` the file is unchanged.

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


def sync(path: Path) -> None:
    """Returns once a file, or a folder's list of entries, would survive a power loss; raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
