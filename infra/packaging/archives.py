"""Reproducible zip archives: their bytes depend only on the files' names and bytes."""

import hashlib
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date in a zip archive
_UNIX = 3
# Lambda runs functions as a user that does not own the files, so all users may read them. Source: Lambda developer
# guide, "Working with .zip file archives for Python Lambda functions".
_READABLE = 0o100644 << 16


def pack(folder: Path, archive: Path) -> str:
    """Writes the files below `folder` to `archive` and returns its SHA-256 in hexadecimal.

    Equal files give an equal archive on every machine with the same zlib.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(archive, "w", ZIP_DEFLATED, compresslevel=9) as zip_file:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            entry.create_system, entry.external_attr, entry.compress_type = _UNIX, _READABLE, ZIP_DEFLATED
            zip_file.writestr(entry, path.read_bytes())
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
