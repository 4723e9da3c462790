"""Reads and writes pipes in an event loop."""

import asyncio
import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import suppress

# The bytes of one read, and of a pipe. With the 64 KB of Linux an object costs twice the processor time.
_CHUNK = 1 << 18


def widen(*descriptors: int) -> None:
    """Has the pipes hold more, where the system lets this user."""
    if sys.platform == "linux":
        for descriptor in descriptors:
            with suppress(PermissionError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _CHUNK)


async def read_some(descriptor: int) -> bytes:
    """Return the available bytes, after waiting for the first byte, or b"" at the end. The descriptor does not
    block."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            await _event(descriptor, loop.add_reader, loop.remove_reader)


async def write_all(descriptor: int, data: bytes) -> None:
    """Waits as long as the reader does. Raises `BrokenPipeError` when it is gone. The descriptor does not block."""
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            await _event(descriptor, loop.add_writer, loop.remove_writer)


async def _event(descriptor: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    happened = asyncio.Event()
    add(descriptor, happened.set)
    try:
        await happened.wait()
    finally:
        remove(descriptor)
