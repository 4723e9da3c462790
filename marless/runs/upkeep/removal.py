"""Removes folders of runs. A removal that is cut short is recognised, and the next one finishes it."""

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from coordinator.errors import UserError

# A folder gets such a name before its files go, so that nothing takes what is left of it for a run.
_PREFIX = ".removed-"


def remove(folder: Path, delete: Callable[[Path], None] = shutil.rmtree) -> None:
    """Removes a folder with its files by `delete`, never what links in it point to; raises `UserError` for a link, and
    `OSError`."""
    if folder.is_symlink():
        raise UserError(
            f"{folder} is a link to {folder.readlink()}; remove the link by hand, and name what it points to"
        )
    real = folder.resolve()
    hidden = real.with_name(f"{_PREFIX}{real.name}-{secrets.token_hex(4)}")
    real.rename(hidden)
    delete(hidden)


def leftovers(parent: Path) -> list[Path]:
    """What removals that were cut short have left in a folder."""
    return sorted(path for path in parent.glob(f"{_PREFIX}*") if path.is_dir() and not path.is_symlink())
