"""Interfaces to the storage that functions use."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable


class Blobs(Protocol):
    """Immutable objects under keys: a key is written once and never changed.

    Keys are relative slash-separated names such as ``rounds/000007/sample/00000-00003.safetensors``. A run's blobs have
    no access to other runs.
    """

    def get(self, key: str, size: int | None = None) -> bytes:
        """The object's bytes. Raises `NoSuchObject`, or `StorageFault` when the store cannot be read.

        An object of another size than `size` raises `CorruptObject` without being read, because it may fill the memory.
        """

    def put(self, key: str, body: bytes) -> None:
        """Stores `body` whole or not at all.

        Raises `KeyTaken` if the key holds any object (the first writer wins), and `StorageFault` if the store cannot
        take it.
        """


@runtime_checkable
class Files(Protocol):
    """Objects that are files of this machine, for objects that are too large to be read."""

    def file(self, key: str, sha256: str, size: int) -> Path:
        """Return the file of an object with this hash and size, which stays as long as it is open. Its bytes are the
        reader's to check. Raises `NoSuchObject`, `CorruptObject` for another size, and `StorageFault`."""


class ClaimedBlobs(Blobs, Protocol):
    """Blobs with claims, which keep two makers from making the same object twice."""

    def claim(self, key: str, longest_s: float) -> AbstractContextManager[None]:
        """Hold the only claim on `key` within the block. It waits as long as another holder has a claim.

        A holder that has ended has none any more: at once where the system tells, else `longest_s` after it began.
        Raises `StorageFault`.
        """


class Completions(Protocol):
    """Small sets by name, of one run. Members are only ever added."""

    def add(self, name: str, member: bytes) -> frozenset[bytes]:
        """Adds `member` to the set, which need not exist yet, and returns the whole set. Of concurrent additions, the
        last returns all members. Raises `StorageFault`.
        """

    def read(self, names: Sequence[str]) -> list[frozenset[bytes]]:
        """The sets, empty where there is none, with all members that were added before the call."""


class ObjectHead(NamedTuple):
    """The beginning of an object with its whole header, the hash and size of the whole object, and the requests that
    this reading took."""

    start: bytes
    sha256: str
    size: int
    gets: int = 1


Heads = Callable[[Sequence[str]], list[ObjectHead | None]]
"""Reads the headers of many objects at once, in the order of keys: None where there is no object. Raises
`StorageFault`."""
