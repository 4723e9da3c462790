"""Bytes that processes of one origin share: each finds the results of the others.

They are in memory without a name, which a process makes before it forks and which goes with the last fork. Results do
not depend on the kept entries, because an entry counts only if its hash is right. So a process that ends at any moment,
or foreign code that writes there, costs only time.
"""

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256

# The hash of a key with its bytes, and the number of bytes. At the beginning is the end of the last entry.
_ENTRY, _END = struct.Struct("<32s32sQ"), struct.Struct("<Q")


class SharedBytes:
    """Entries of at most `most_bytes` together, the first that come. Empty if the system lacks such memory."""

    def __init__(self, most_bytes: int) -> None:
        self._memory: mmap.mmap | None = None
        self._places: dict[bytes, int] = {}
        self._known_to = _END.size
        with suppress(AttributeError, OSError):
            self._file = os.memfd_create("marless")
            os.ftruncate(self._file, most_bytes)
            self._memory = mmap.mmap(self._file, most_bytes)

    def get(self, key: bytes) -> bytes | None:
        """The bytes that any of the processes has put there."""
        name = sha256(key).digest()
        with self._locked() as memory:
            if memory is None or (place := self._places.get(name)) is None:
                return None
            _, digest, size = _ENTRY.unpack_from(memory, place)
            body = memory[place + _ENTRY.size : place + _ENTRY.size + size]
        return body if _digest(key, body) == digest else None

    def put(self, key: bytes, body: bytes) -> None:
        """Keeps the bytes where there is room. The first ones of a key stay."""
        name = sha256(key).digest()
        with self._locked() as memory:
            if memory is None or name in self._places:
                return
            start = self._known_to
            end = start + _ENTRY.size + len(body)
            if end > len(memory):
                return
            memory[start + _ENTRY.size : end] = body
            _ENTRY.pack_into(memory, start, name, _digest(key, body), len(body))
            _END.pack_into(memory, 0, end)  # last: until then the entry is invisible
            self._look(memory)

    @contextmanager
    def _locked(self) -> Iterator[mmap.mmap | None]:
        """Give the memory, or None. This process knows all its entries, and other processes do not write there."""
        memory = self._memory
        try:
            if memory is not None:
                fcntl.lockf(self._file, fcntl.LOCK_EX)  # the system takes it from a process that ends
                self._look(memory)
        except OSError:  # code of others has closed the file
            memory = None
        try:
            yield memory
        finally:
            if memory is not None:
                with suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _look(self, memory: mmap.mmap) -> None:
        """Takes down the entries that are new."""
        end = min(_END.unpack_from(memory)[0], len(memory))
        while self._known_to + _ENTRY.size <= end:
            name, _, size = _ENTRY.unpack_from(memory, self._known_to)
            self._places[name] = self._known_to
            self._known_to += _ENTRY.size + size


@dataclass(frozen=True)
class Below:
    """The entries with keys that begin so."""

    shared: SharedBytes
    prefix: bytes

    def get(self, key: bytes) -> bytes | None:
        """See `SharedBytes`."""
        return self.shared.get(self.prefix + key)

    def put(self, key: bytes, body: bytes) -> None:
        """See `SharedBytes`."""
        self.shared.put(self.prefix + key, body)


def _digest(key: bytes, body: bytes) -> bytes:
    return sha256(key + body).digest()
