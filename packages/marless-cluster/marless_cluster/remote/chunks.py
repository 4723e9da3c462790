"""The messages on the connection of a worker: chunks, each a kind, a length and bytes."""

import asyncio
import struct
from typing import Final

import msgspec

from marless.functions.encoding import MessagePackDecoder, Undecodable, to_message_pack

DATA: Final = 1
"""Bytes of the pipe between pool and worker."""
PRINTED: Final = 2
"""To the driver: what the worker prints."""
EXIT: Final = 3
"""To the driver, the last: how the worker has ended."""

BEAT: Final = 4
"""To both, without bytes: the sender is alive."""

LARGEST = 1 << 20
"""Bytes of a chunk."""
_HEAD = struct.Struct("<BI")


class Exit(msgspec.Struct, frozen=True):
    """The process has ended with `code`, see `subprocess`. None: it was ended, because it closed its pipes."""

    code: int | None


_EXITS = MessagePackDecoder(Exit)


def chunk(kind: int, body: bytes) -> bytes:
    """The bytes to send."""
    return _HEAD.pack(kind, len(body)) + body


def exit_chunk(code: int | None) -> bytes:
    """Says how the worker has ended."""
    return chunk(EXIT, to_message_pack(Exit(code)))


def exit_code(body: bytes) -> int | None:
    """Of the chunk's bytes. Raises `Undecodable`."""
    return _EXITS.decode(body).code


async def read_chunk(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the next chunk. Raises `EOFError` at the end, and `Undecodable` for an invalid chunk."""
    kind, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if kind not in (DATA, PRINTED, EXIT, BEAT) or size > LARGEST:
        raise Undecodable(f"a chunk of kind {kind} and {size:,} bytes is none of ours")
    return kind, await reader.readexactly(size)
