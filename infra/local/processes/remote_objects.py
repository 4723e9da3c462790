"""Objects of a run with storage on another machine: the worker asks, the pool answers from its files."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from marless.functions.codec import verify
from marless.functions.errors import CorruptObject, KeyTaken, NoSuchObject, StorageFault
from marless.functions.messages.message import Ref
from marless.functions.system_errors import explain
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.pipe_messages import MOST_OBJECT, Get, ObjectStored, Put, frame
from marless.infra.local.resources.upcalls import NoTask, Upcalls

ERRORS = {error.__name__: error for error in (CorruptObject, KeyTaken, NoSuchObject, StorageFault, ValueError)}


class RemoteObjects:
    """`marless.functions.storage_port.Blobs` of a worker's task, by questions to its pool. Other runs' objects are out
    of reach. Its first inputs may have come with the task: `offers`, by key. If it stores `ahead`, `put` raises none of
    the errors of `Blobs`. The pool repeats the task if storing an announced object fails."""

    def __init__(self, upcalls: Upcalls, offers: dict[str, bytes], ahead: bool) -> None:
        self._upcalls, self._offers, self._ahead = upcalls, offers, ahead

    def get(self, key: str, size: int | None = None) -> bytes:
        """See `Blobs`."""
        body = self._offers.pop(key, None)
        return self._exchange(key, lambda number, token: frame(Get(key, number, size, token))) if body is None else body

    def put(self, key: str, body: bytes) -> None:
        """See `Blobs`."""
        refuse_too_large(key, len(body))
        if self._ahead:
            with _no_task(key):
                self._upcalls.tell(lambda number, token: frame(Put(key, number, token, ahead=True), body))
        else:
            self._exchange(key, lambda number, token: frame(Put(key, number, token), body))

    def file(self, key: str, sha256: str, size: int) -> Path:
        """See `marless.functions.storage_port.Files`: a copy by its hash, which all processes of this user share."""
        copies, name = FileStorage(folder_of_copies(Path(tempfile.gettempdir()))), f"{sha256}.safetensors"
        try:
            return copies.file(name, sha256, size)
        except NoSuchObject:
            body = verify(Ref(key=key, sha256=sha256, size=size), self.get(key, size))
            with suppress(KeyTaken):  # by another process meanwhile
                copies.put(name, body)
        return copies.file(name, sha256, size)

    def _exchange(self, key: str, question: Callable[[int, int], bytes]) -> bytes:
        with _no_task(key):
            [(answer, body)] = self._upcalls.exchange([question])
        assert isinstance(answer, ObjectStored)
        if answer.error:
            raise ERRORS.get(answer.error, StorageFault)(answer.detail)
        return body


@contextmanager
def _no_task(key: str) -> Iterator[None]:
    try:
        yield
    except NoTask as error:
        raise StorageFault(f"object {key!r}: {error}") from None


def refuse_too_large(key: str, size: int) -> None:
    """Raises `StorageFault` for an object that no frame can hold."""
    if size > MOST_OBJECT:
        raise StorageFault(f"object {key!r} has {size:,} bytes; a connection takes {MOST_OBJECT:,}")


def folder_of_copies(parent: Path) -> Path:
    """Return a folder below `parent` for copies that only this user may write to. Raises `StorageFault`."""
    folder = parent / f"marless-objects-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise StorageFault(f"no copy of an object may be kept in {folder}: it is a link, or another user's")
    except OSError as error:
        raise StorageFault(f"no copy of an object can be kept in {folder}: {explain(error)}") from error
    return folder
