"""A run as one file, and back: a compressed tar archive with the same bytes for the same files."""

import gzip
import hashlib
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from coordinator.errors import UserError
from functions.encoding import Undecodable
from marless.runs.folder import IDENTITY, ROOT, RunFolder, decode_identity, require_name
from marless.runs.upkeep.removal import ARCHIVING, ARRIVING, at_work, discard, hidden, leftovers

SUFFIX = ".tar.gz"
# What the next driver makes anew.
_PASSING = (".lock", ".sqlite-shm")
_UNREADABLE = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error)
# A member is a file where another one has a folder.
_CLASHES = (FileExistsError, IsADirectoryError, NotADirectoryError)


def pack(folder: RunFolder, path: Path) -> int:
    """Writes a run that nothing drives into the new file `path`, reads it back, and returns how many files it has.

    Raises `UserError` for a path that is taken or in no folder, for a run that is driven or holds links, and where what
    is read differs.
    """
    if not path.parent.is_dir():
        raise UserError(f"-o {path}: there is no folder {path.parent}")
    if path.exists():
        raise UserError(f"{path} exists; give another file with -o")
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


def unpack(path: Path) -> RunFolder:
    """The run of an archive under runs/; raises `UserError` for a file that is none, and where something is in the
    run's way."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            name = _name(archive, path)
            if (ROOT / name).exists():
                raise UserError(f"there is something called {ROOT / name} already; move it, or remove it first")
            _extract(archive, name)
    except (*_UNREADABLE, *_CLASHES, Undecodable, FileNotFoundError) as error:
        if not path.exists():
            raise UserError(f"there is no file {path}") from None
        raise UserError(f"{path} is no whole archive of a run: {error}") from error
    return RunFolder(ROOT / name)


def _extract(archive: tarfile.TarFile, name: str) -> None:
    """Puts the run in its place once it is whole."""
    try:
        ROOT.mkdir(exist_ok=True)
    except FileExistsError:
        raise UserError(f"{ROOT} is no folder, and runs are kept in one of that name; move it, or rename it") from None
    _finish(ROOT / name)
    arriving = hidden(ROOT / name, ARRIVING)
    arriving.mkdir()
    try:
        with at_work(arriving):
            for member in archive:
                _write_member(archive, member, arriving)
            decode_identity((arriving / name / IDENTITY).read_bytes())
            (arriving / name).rename(ROOT / name)
    finally:
        discard(arriving)


def _write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Writes a file of an archive below the folder, without the owner, permissions and times that it has there."""
    if (content := archive.extractfile(member)) is None:
        return  # a folder, which its files make
    path = folder / member.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)


def _finish(path: Path) -> None:
    """Removes what was left when the same was cut short."""
    for leftover in leftovers(path.parent, path.name):
        discard(leftover)


def _files(folder: Path) -> list[Path]:
    """The files to keep, by name; raises `UserError` for links."""
    paths = sorted(folder.rglob("*"))
    if link := next((path for path in paths if path.is_symlink()), None):
        raise UserError(f"{link} is a link, which an archive would lose; put the file itself there")
    return [path for path in paths if path.is_file() and not path.name.endswith(_PASSING)]


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


def _name(archive: tarfile.TarFile, path: Path) -> str:
    """The run's name, which is the folder of every member; raises `UserError` for anything but files in one folder."""
    members = archive.getmembers()
    # `tar -C runs/first .` names the folder itself "./", which has no parts.
    names = {(*PurePosixPath(member.name).parts, "")[0] for member in members}
    if len(names) != 1 or not all(_stays(member) for member in members):
        raise UserError(f"{path} is no archive of a run: it does not hold the files of one folder")
    [name] = names
    require_name(name, "the archive's run")
    return name


def _stays(member: tarfile.TarInfo) -> bool:
    """Whether it is a file or a folder, and in the folder that its name begins with; no file has a name with a zero."""
    is_below = ".." not in PurePosixPath(member.name).parts and "\0" not in member.name
    return is_below and (member.isfile() or member.isdir())
