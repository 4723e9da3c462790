"""Frames: the messages between the pool and its worker processes over pipes.

A frame is two lengths, a typed header in MessagePack and opaque bytes.
"""

import os
import struct
from collections.abc import Iterator

import msgspec

_LENGTHS = struct.Struct("<IQ")
# The default capacity of a pipe on Linux.
_CHUNK = 1 << 16


class Call(msgspec.Struct, frozen=True):
    """To the worker: run `module`'s `handle` on the frame's bytes with the objects below the folder `root`, or with
    `warm` only import it."""

    module: str
    root: str = ""
    warm: bool = False


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """From the worker: the import of `module` took `init_ms`; a task that waited for it starts now."""

    module: str
    init_ms: float


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """From the worker: `handle` returned the frame's bytes, or raised `error` ('Type: message').

    `processor_ms`: of all its threads. `peak_mb`, `resident_mb`: the most memory so far, and at present.
    """

    duration_ms: float
    processor_ms: float
    peak_mb: float
    resident_mb: float
    error: str = ""


_encoder = msgspec.msgpack.Encoder()


def frame(header: Call | Ready | Ended, body: bytes = b"") -> bytes:
    """The bytes to write."""
    encoded = _encoder.encode(header)
    return b"".join((_LENGTHS.pack(len(encoded), len(body)), encoded, body))


class Inbox:
    """The reading end of a pipe, split into (encoded header, body)."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()

    @property
    def partial(self) -> bool:
        """Whether a frame has begun to arrive."""
        return bool(self._buffer)

    def fill(self) -> bool:
        """Reads from the pipe, waiting only if the pipe blocks; False at the pipe's end."""
        chunk = os.read(self._descriptor, _CHUNK)
        self._buffer += chunk
        return bool(chunk)

    def frames(self) -> Iterator[tuple[bytes, bytes]]:
        """The frames that have arrived completely."""
        buffer = self._buffer
        while len(buffer) >= _LENGTHS.size:
            header, body = _LENGTHS.unpack_from(buffer)
            middle = _LENGTHS.size + header
            end = middle + body
            if len(buffer) < end:
                return
            with memoryview(buffer) as view:
                taken = bytes(view[_LENGTHS.size : middle]), bytes(view[middle:end])
            del buffer[:end]
            yield taken
