"""A run as one file, and back: a compressed tar archive with the same bytes for the same files."""

import gzip
import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO

from marless.coordinator.errors import UserError
from marless.runs.folder import IDENTITY, RunFolder, decode_identity
from marless.runs.run_store import RUNS, RunStore
from marless.runs.upkeep.removal import ARCHIVING, ARRIVING, at_work, discard, hidden, leftovers

SUFFIX = ".tar.gz"
# Files that the next driver makes again.
_PASSING = (".lock", ".sqlite-shm")
_UNREADABLE = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError, LookupError, ArithmeticError)
# A header is read at once. Names have the lengths that file systems take.
_MOST_AT_ONCE, _LONGEST_PATH, _LONGEST_NAME = 1 << 20, 1000, 255
_MOST_FILES = 1 << 20
# An error may repeat a name.
_LONGEST_LINE = 300
# A member is a file in the place of another member's folder.
_CLASHES = (FileExistsError, IsADirectoryError, NotADirectoryError)


def pack(folder: RunFolder, path: Path) -> int:
    """Writes a run that nothing drives into the new file `path`, reads it back, and returns how many files it has.

    Raises `UserError` for a bad path, a driven run, links in the run, or different content after reading back.
    """
    if not path.parent.is_dir():
        raise UserError(f"--out {path}: there is no folder {path.parent}")
    if path.exists():
        raise UserError(f"{path} exists; give another file with --out")
    partial = hidden(path, ARCHIVING)
    with folder.driving():
        _finish(path)
        files = _files(folder.path.resolve())
        try:
            with partial.open("xb") as raw, at_work(partial):
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                    _write(packed, folder.path.resolve(), files)
                raw.flush()
                _compare(partial, folder.path.resolve(), files)
                partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)
    return len(files)


def unpack(path: Path, store: RunStore = RUNS) -> RunFolder:
    """Put the run of an archive into the store. Raise `UserError` if the file is no archive, or the name is taken."""
    try:
        with _Packed(path) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
            return _extract(archive, path, store)
    except (*_UNREADABLE, *_CLASHES, FileNotFoundError) as error:
        if not path.exists():
            raise UserError(f"there is no file {path}") from None
        raise UserError(f"{path} is no whole archive of a run: {error}"[:_LONGEST_LINE]) from error


class _Packed(gzip.GzipFile):
    """Reads an archive in parts that fit into memory."""

    def read(self, size: int | None = -1) -> bytes:
        """See `gzip.GzipFile`. Raises `tarfile.ReadError` for a part that is larger than any header of a run."""
        if size is None or not 0 <= size <= _MOST_AT_ONCE:
            raise tarfile.ReadError("it has a header that is too long")
        return super().read(size)


def _extract(archive: tarfile.TarFile, path: Path, store: RunStore) -> RunFolder:
    members = _members(archive, path)
    first = next(members, None)
    name = _folder(first) if first else ""
    folder, root = store.place(name, "the archive's run"), store.root
    if folder.path.exists():
        raise UserError(f"there is something called {folder.path} already; move it, or remove it first")
    try:
        root.mkdir(exist_ok=True)
    except FileExistsError:
        raise UserError(f"{root} is no folder, and runs are kept in one of that name; move it, or rename it") from None
    _finish(folder.path)
    arriving = hidden(folder.path, ARRIVING)
    arriving.mkdir()
    try:
        with at_work(arriving):
            for member in chain([first] if first else [], members):
                _write_member(archive, member, arriving)
            if not (identity := arriving / name / IDENTITY).is_file():
                raise UserError(f"{path} is no whole archive of a run: it holds no {IDENTITY}")
            decode_identity(identity.read_bytes())
            (arriving / name).rename(folder.path)
    finally:
        discard(arriving)
    return folder


def _write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    if (content := archive.extractfile(member)) is None:
        return  # a folder, which its files make
    if member.size > (free := shutil.disk_usage(folder).free):
        raise UserError(f"a file of the archive has {member.size:,} bytes, and the disk has {free:,} left")
    path = folder / member.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)


def _finish(path: Path) -> None:
    for leftover in leftovers(path.parent, path.name):
        discard(leftover)


def _files(folder: Path) -> list[Path]:
    """The files to keep, by name. Raises `UserError` for links, and for more files than `unpack` takes."""
    paths = sorted(folder.rglob("*"))
    if link := next((path for path in paths if path.is_symlink()), None):
        raise UserError(f"{link} is a link, which an archive would lose; put the file itself there")
    files = [path for path in paths if path.is_file() and not path.name.endswith(_PASSING)]
    if len(files) > _MOST_FILES:
        raise UserError(f"{folder.name} has {len(files):,} files, and an archive holds at most {_MOST_FILES:,}")
    return files


def _write(packed: gzip.GzipFile, folder: Path, files: list[Path]) -> None:
    """Times, owners and permissions are left out."""
    with tarfile.open(fileobj=packed, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for path in files:
            member = tarfile.TarInfo(_member(folder, path))
            member.size = path.stat().st_size
            with path.open("rb") as file:
                archive.addfile(member, file)


def _compare(archive_path: Path, folder: Path, files: list[Path]) -> None:
    sums = {_member(folder, path): _sha256(path.open("rb")) for path in files}
    if dict(_sums(archive_path)) != sums:
        raise UserError(f"the archive of {folder.name} was not read back as it was written; is the disk sound?")


def _sums(archive_path: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive_path, "r:gz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            yield member.name, _sha256(file)


def _sha256(file: IO[bytes]) -> str:
    with file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # takes any file of bytes


def _member(folder: Path, path: Path) -> str:
    return f"{folder.name}/{path.relative_to(folder).as_posix()}"


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    """One after the other. Raises `UserError` for anything but files in one folder."""
    name = None
    for _ in range(_MOST_FILES):
        if (member := archive.next()) is None:
            return
        vars(archive)["members"].clear()  # it would keep them all
        name = _folder(member) if name is None else name
        if fault := _fault(member, name):
            raise UserError(f"{path} is no archive of a run: {fault}")
        yield member
    raise UserError(f"{path} is no archive of a run: it holds more than {_MOST_FILES:,} files")


def _folder(member: tarfile.TarInfo) -> str:
    """The first part of its name. `tar -C runs/first .` names the folder itself "./", without any part."""
    return (*PurePosixPath(member.name).parts, "")[0]


def _fault(member: tarfile.TarInfo, name: str) -> str:
    parts = PurePosixPath(member.name).parts
    if len(member.name) > _LONGEST_PATH or any(len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
        return "it holds a name that is too long for a file"
    if member.issparse() or member.size < 0:
        return "it holds a file with gaps, as `tar --sparse` writes them"
    is_below = _folder(member) == name and ".." not in parts and "\0" not in member.name
    is_kept = member.isfile() or member.isdir()
    return "" if is_below and is_kept else "it does not hold the files of one folder"
