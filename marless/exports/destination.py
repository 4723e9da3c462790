"""The folder of an export appears whole, or not at all, and replaces no other. This module also names its files."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp

from marless.coordinator.errors import UserError


def require_free(folder: Path) -> None:
    """Raises `UserError` if this path exists and is not an empty folder."""
    try:
        is_occupied = any(folder.iterdir()) if folder.is_dir() else folder.exists() or folder.is_symlink()
    except OSError as error:
        raise _unwritable(folder, error) from error
    if is_occupied:
        raise UserError(f"{folder} exists already; delete it, or choose another `out`")


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files by name. Raises `UserError` if the folder is taken or the disk refuses them."""
    require_free(folder)
    temporary: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        temporary.chmod(0o777 & ~_umask())
        for name, body in files.items():
            (temporary / name).parent.mkdir(exist_ok=True)
            (temporary / name).write_bytes(body)
        temporary.rename(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def file_names(agents: Sequence[str], suffix: str, others: Collection[str] = ()) -> list[str]:
    """The agents' names. Names that some disks refuse, or that `others` have, become numbers."""
    name_counts = Counter(name.lower() for name in (*agents, *others))
    safe_names = {name for name in name_counts if re.fullmatch(r"\w[\w.-]{0,80}", name) and name_counts[name] == 1}
    names = []
    for place, name in enumerate(agents):
        file_name = name if name.lower() in safe_names else f"agent{place}"
        while file_name != name and file_name in safe_names:
            file_name += "_"
        names.append(f"{file_name}.{suffix}")
    return names


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(f"{folder} cannot be written: {error.strerror}")
