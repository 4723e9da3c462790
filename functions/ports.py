"""What a function needs from outside."""

from typing import Protocol


class Blobs(Protocol):
    """Immutable objects under keys: a key is written once and never changed.

    Keys are relative slash-separated names such as ``rounds/000007/sample/00000-00003.safetensors``; a run's blobs
    never reach outside the run.
    """

    def get(self, key: str) -> bytes:
        """The object's bytes; raises `NoSuchObject`, or `StorageFault` when the store cannot be read."""

    def put(self, key: str, body: bytes) -> None:
        """Stores `body` whole or not at all.

        Raises `KeyTaken` if anything is already stored under `key` (whatever its bytes; the first writer wins), and
        `StorageFault` when the store cannot take it.
        """
