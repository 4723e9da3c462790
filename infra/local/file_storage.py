"""Objects as files under one folder: the storage of the local back-end."""

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from io import FileIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from marless.functions.errors import CorruptObject, KeyTaken, NoSuchObject, StorageFault
from marless.functions.system_errors import explain
from marless.infra.local.file_claims import claimed
from marless.infra.object_keys import check_key, check_prefix

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# Far more than folders that others remove in a moment.
_ATTEMPTS = 100


class FileStorage:
    """Write-once objects below `root`, safe for any number of threads and processes on one machine.

    Keys that could lead outside `root` raise `ValueError`. Errors of the operating system raise `StorageFault`.

    A separate thread removes folders that `delete` leaves empty. Some disks take milliseconds for each, ten times as
    long as for an object, and a driver that waits for them leaves its workers idle.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._prefix = f"{self.root}/"
        self._writer = secrets.token_hex(6)
        self._serial = count()
        self._has_deleted = False

    def get(self, key: str, size: int | None = None) -> bytes:
        """The object's bytes. Raises `NoSuchObject` or `StorageFault`, and `CorruptObject` for another size."""
        path = self._path(key)
        try:
            with FileIO(path, opener=at_once) as file:
                if size is not None and (stored_size := os.fstat(file.fileno()).st_size) != size:
                    raise CorruptObject.of_size(key, stored_size, size)
                return bytes(file.readall() or b"")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NoSuchObject(key) from None
        except OSError as error:
            raise _fault("read", path, error) from error

    def file(self, key: str, sha256: str, size: int) -> Path:
        """See `marless.functions.storage_port.Files`."""
        path = Path(self._path(key))
        try:
            stored_size = path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            raise NoSuchObject(key) from None
        except OSError as error:
            raise _fault("read", str(path), error) from error
        if stored_size != size:
            raise CorruptObject.of_size(key, stored_size, size)
        return path

    def adopt(self, key: str, file: Path) -> None:
        """Stores the bytes of a file that only this program has, and that is never written to again.

        It is linked, so that runs share its memory, and copied only from another file system. Raises `KeyTaken` and
        `StorageFault`.
        """
        path = Path(self._path(key))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file, path)
            except FileExistsError:
                raise KeyTaken(key) from None
            except OSError:
                self.put(key, file.read_bytes())
        except OSError as error:
            raise _fault("store", str(path), error) from error

    def put(self, key: str, body: bytes) -> None:
        """Stores `body` atomically. Raises `KeyTaken` if the key holds an object, even with the same bytes.

        A hard link, which fails if the name exists, publishes the object. It survives the end of this process at any
        moment, and a power loss only after `persist`.
        """
        path = self._path(key)
        # The name is unique per process and thread, so a killed writer's leftover blocks no other writer.
        temporary = f"{path.rpartition('/')[0]}/.{self._writer}-{os.getpid()}-{next(self._serial)}.tmp"
        try:
            _write(temporary, body)
            try:
                os.link(temporary, path)
            except FileExistsError:
                raise KeyTaken(key) from None
        except OSError as error:
            raise _fault("store", path, error) from error
        finally:
            with suppress(OSError):
                Path(temporary).unlink(missing_ok=True)

    def claim(self, key: str, longest_s: float) -> AbstractContextManager[None]:
        """See `ClaimedBlobs`: a lock on a file next to the object, which the system takes from a process that ends."""
        return claimed(Path(self._path(key)))

    def persist(self, keys: Iterable[str]) -> None:
        """Returns once the objects would survive a power loss. Raises `NoSuchObject` if a key holds nothing."""
        folders: set[Path] = set()
        for key in keys:
            path = Path(self._path(key))
            try:
                sync(path)
            except FileNotFoundError:
                raise NoSuchObject(key) from None
            except OSError as error:
                raise _fault("persist", str(path), error) from error
            # A file survives only if every folder on the path is synced, too.
            folders.update(folder for folder in path.parents if folder.is_relative_to(self.root.parent))
        for folder in folders:
            try:
                sync(folder)
            except OSError as error:
                raise _fault("persist", str(folder), error) from error

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects, and soon the folders that they leave empty. Missing keys are ignored. See `settle`."""
        folders: dict[str, None] = {}
        for key in keys:
            path = self._path(key)
            folders[path.rpartition("/")[0]] = None
            try:
                Path(path).unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue
            except OSError as error:
                raise _fault("delete", path, error) from error
        if folders:
            self._has_deleted = True
            _remover(os.getpid()).submit(self._remove_all_empty, list(folders))

    def settle(self) -> None:
        """Returns once the folders are gone that `delete` left empty."""
        if self._has_deleted:
            _remover(os.getpid()).submit(int).result()  # one after the other: earlier removals have ended

    def _remove_all_empty(self, folders: Sequence[str]) -> None:
        for folder in folders:
            self._remove_empty(folder)

    def _remove_empty(self, folder: str) -> None:
        """Removes the folder and its empty parents below the root. A writer that needs one makes it again."""
        with suppress(OSError):
            while folder.startswith(self._prefix):
                Path(folder).rmdir()
                folder = folder.rpartition("/")[0]

    def list(self, prefix: str) -> list[str]:
        """The keys that start with `prefix`, sorted, without unfinished objects."""
        folder, slash, start = check_prefix(prefix).rpartition("/")
        return sorted(self._walk(folder + slash, start))

    def _walk(self, folder: str, start: str) -> Iterator[str]:
        path = self._prefix + folder
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or not entry.name.startswith(start):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        yield from self._walk(f"{folder}{entry.name}/", "")
                    else:
                        yield folder + entry.name
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _fault("list", path, error) from error

    def _path(self, key: str) -> str:
        return self._prefix + check_key(key)


@cache
def _remover(process: int) -> "ThreadPoolExecutor":
    """The thread of this process that removes folders. A fork has none of its parent's. It finishes its work before the
    process ends."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1, thread_name_prefix="folders")


def at_once(path: str, flags: int) -> int:
    """An opener of files. The path may be a pipe: opening it does not wait for a reader or writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _write(path: str, body: bytes) -> None:
    with _create(path) as file:
        written = file.write(body)
        # A write may be partial (a full disk, 2 GiB). The next one raises the error or continues.
        while written < len(body):
            written += file.write(memoryview(body)[written:])


def _create(path: str) -> FileIO:
    """A new file. Its folder may be missing, and go again in between, as `delete` removes folders that are empty."""
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            return FileIO(path, "x")
        # `mkdir` says that one exists which was there and is gone.
        with suppress(FileNotFoundError, FileExistsError):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
    return FileIO(path, "x")


def sync(path: Path) -> None:
    """Returns once the file, or the folder's entries, would survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fault(doing: str, path: str, error: OSError) -> StorageFault:
    return StorageFault(f"cannot {doing} {path}: {explain(error)}")
