"""Frames: the messages between the pool and its worker processes over pipes, which connections may lengthen.

A frame is two lengths, a typed header in MessagePack and opaque bytes. The header has a checksum of both, because
networks and memory of other machines may change a bit.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from typing import Annotated, TypeVar

import msgspec
from msgspec.structs import replace

from marless.functions.encoding import MessagePackDecoder, Undecodable, to_message_pack

_LENGTHS = struct.Struct("<IQ")
# The default capacity of a pipe on Linux.
_CHUNK = 1 << 16
# A body of more bytes than this is put together as it arrives, because its announcer may never send it.
_MOST_PLACED = 1 << 26
# A header is short, and a message is held in memory.
_MOST_HEADER, _MOST_BYTES = 1 << 20, 1 << 30
MOST_OBJECT = _MOST_BYTES - _MOST_HEADER
"""Bytes of an object that a frame can hold."""


class Damaged(Undecodable):
    """A frame was changed on its way, or its sender is faulty. The message continues after the sender's name."""


# A task may write its own frame into the pipe. Values beyond any worker's measurements are refused.
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Megabytes = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    """`checksum`: of the header without it, and of the frame's bytes."""

    checksum: int = 0


class TaskCall(_Message, frozen=True, tag="call"):
    """To the worker: run `module`'s `handle` on the frame's bytes with the objects below the folder `root`, or with the
    pool's if it is empty. With `warm` it only imports the module. Its messages repeat the `token`. A task that stores
    `ahead` does not wait until the pool has stored its objects."""

    module: str
    # As the system has it: a name of a file need not be text.
    root: bytes = b""
    warm: bool = False
    token: int = 0
    ahead: bool = False


class Offer(_Message, frozen=True, tag="offer"):
    """To a worker that does not reach the run's storage: its next task reads the object, the frame's bytes."""

    key: str


class Ready(_Message, frozen=True, tag="ready"):
    """From the worker: the import of `module` took `init_ms`. A task that waited for it starts now."""

    module: str
    init_ms: Milliseconds
    token: int = 0


class Loaded(_Message, frozen=True, tag="loaded"):
    """From the worker, before its task stores or answers anything. `code` has the hashes by name of the user's files
    that the process has loaded or read since the last such message to the run."""

    code: dict[str, str]
    token: int = 0


class TaskEnded(_Message, frozen=True, tag="ended"):
    """From the worker: `handle` returned the frame's bytes, or raised `error` ('Type: message').

    `processor_ms`: of all its threads. `peak_mb`, `resident_mb`: the most memory so far, and at present.
    `third_party_code`: the process has imported such code. `process_is_modified`: it is not as it was at its start.
    """

    duration_ms: Milliseconds
    processor_ms: Milliseconds
    peak_mb: Megabytes
    resident_mb: Megabytes
    error: str = ""
    third_party_code: bool = False
    process_is_modified: bool = False
    token: int = 0


class Ask(_Message, frozen=True, tag="ask"):
    """From the worker: its task asks `resource` the question in the frame's bytes, and waits for the answer.

    `number`: larger than the number of every earlier question of the worker. `key`: the place of the kept answer, or
    ''. The pool itself knows the resource, and which task asks.
    """

    resource: str
    number: Annotated[int, msgspec.Meta(ge=0)]
    key: str = ""
    token: int = 0


class Restart(_Message, frozen=True, tag="restart"):
    """From the worker of a resource: its action has only waited so far, for another process at the same question."""

    token: int = 0


class ResourceAnswer(_Message, frozen=True, tag="told"):
    """To the worker: the answer to its question `number` is the encoded `marless.functions.resources.port.CallOutcome`
    in the frame's bytes. The `token` belongs to the task that asked."""

    number: int
    token: int


class Get(_Message, frozen=True, tag="get"):
    """From a worker that does not reach the run's storage: its task wants the object, which has `size` bytes if that is
    given. See `Ask` for `number`."""

    key: str
    number: Annotated[int, msgspec.Meta(ge=0)]
    size: int | None = None
    token: int = 0


class Put(_Message, frozen=True, tag="put"):
    """From such a worker: its task stores the frame's bytes, and waits for an answer unless it stores `ahead`."""

    key: str
    number: Annotated[int, msgspec.Meta(ge=0)]
    token: int = 0
    ahead: bool = False


class ObjectStored(_Message, frozen=True, tag="stored"):
    """To such a worker: the object that its task wants is the frame's bytes, or was stored. Otherwise storage has
    raised the `error` of this name, with the `detail`."""

    number: int
    token: int
    error: str = ""
    detail: str = ""


Message = TaskCall | Offer | ResourceAnswer | ObjectStored | Ready | Loaded | TaskEnded | Ask | Restart | Get | Put


_M = TypeVar("_M", bound=_Message)


def frame(header: Message, body: bytes = b"") -> bytes:
    """The bytes to write."""
    header_bytes = to_message_pack(replace(header, checksum=_checksum(header, body)))
    return b"".join((_LENGTHS.pack(len(header_bytes), len(body)), header_bytes, body))


def checked_header(decoder: MessagePackDecoder[_M], header: bytes, body: bytes) -> _M:
    """The header of a frame. Raises `Damaged`."""
    try:
        decoded = decoder.decode(header)
    except Undecodable as error:
        raise Damaged("sent a message that cannot be read") from error
    if decoded.checksum != _checksum(decoded, body):
        raise Damaged("sent a message that has changed on its way")
    return decoded


def _checksum(header: _Message, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(to_message_pack(replace(header, checksum=0))))


class Inbox:
    """The reading end of a pipe, split into (encoded header, body)."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        # A long body is read into its place, a third of the work: its header, and how many bytes of it have arrived.
        self._header, self._body, self._arrived = b"", bytearray(), 0

    @property
    def partial(self) -> bool:
        """Return True if a frame has begun to arrive."""
        return bool(self._buffer or self._body)

    def fill(self) -> bool:
        """Reads from the pipe, waiting only if the pipe blocks. Returns False at the pipe's end."""
        if self._arrived < len(self._body):
            with memoryview(self._body) as view, view[self._arrived :] as rest:
                count = os.readv(self._descriptor, [rest])
            self._arrived += count
            return bool(count)
        chunk = os.read(self._descriptor, _CHUNK)
        self._buffer += chunk
        return bool(chunk)

    def frames(self) -> Iterator[tuple[bytes, bytes]]:
        """The frames that have arrived completely. Raises `Undecodable` for an impossible one."""
        if self._body:
            if self._arrived < len(self._body):
                return
            placed, self._body, self._arrived = bytes(self._body), bytearray(), 0
            yield self._header, placed
        buffer = self._buffer
        while len(buffer) >= _LENGTHS.size:
            header, body = _LENGTHS.unpack_from(buffer)
            if header > _MOST_HEADER or header + body > _MOST_BYTES:
                raise Undecodable(f"a frame of {header + body:,} bytes is longer than any message")
            middle = _LENGTHS.size + header
            end = middle + body
            if len(buffer) < end:
                if middle <= len(buffer) and _CHUNK < body <= _MOST_PLACED:
                    self._place(middle, body)
                return
            with memoryview(buffer) as view:
                header_and_body = bytes(view[_LENGTHS.size : middle]), bytes(view[middle:end])
            del buffer[:end]
            yield header_and_body

    def _place(self, middle: int, size: int) -> None:
        self._header, self._body = bytes(self._buffer[_LENGTHS.size : middle]), bytearray(size)
        self._arrived = len(self._buffer) - middle
        self._body[: self._arrived] = self._buffer[middle:]
        self._buffer.clear()
