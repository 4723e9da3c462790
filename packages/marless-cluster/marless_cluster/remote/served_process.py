"""A worker process that serves one connection."""

import asyncio
import os
from contextlib import suppress
from types import TracebackType
from typing import Self

from marless.functions.encoding import Undecodable
from marless.infra.local.processes.process_starters import Starter, start_with_pipes
from marless.infra.local.resources.upcalls import DAMAGED
from marless_cluster.remote.chunks import DATA, LARGEST, PRINTED, chunk, exit_chunk
from marless_cluster.remote.descriptors import read_some, widen, write_all
from marless_cluster.remote.handshake import Stream
from marless_cluster.remote.pulse import Pulse

# So long a process that has closed its pipes may take to end by itself.
_ENDING_S, _LOOK_S = 0.1, 0.01


class ServedProcess:
    """Started at once. Raises `OSError` when it cannot be. Where the block ends, so does the process."""

    def __init__(self, starter: Starter) -> None:
        self._log, far_log = os.pipe()
        os.set_blocking(self._log, False)
        try:
            self._process = start_with_pipes(starter, far_log, 0)
            widen(self._process.requests, self._process.replies)
        except OSError:
            os.close(self._log)
            raise
        finally:
            os.close(far_log)
        self._has_ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for descriptor in (self._log, *self._process[1:]):
            os.close(descriptor)
        if not self._has_ended:
            self._process.child.end()

    async def serve(self, stream: Stream, pulse: Pulse, first: bytes) -> None:
        """Pass on the bytes of driver and process, first these bytes to the process. Returns when one of them has
        ended. The driver hears how the process has."""
        parts = [
            asyncio.ensure_future(part) for part in (self._hear(pulse, first), self._speak(stream), self._print(stream))
        ]
        hearing, speaking, printing = parts
        try:
            await asyncio.wait((hearing, speaking), return_when=asyncio.FIRST_COMPLETED)
            if speaking.done() and speaking.exception() is None:
                await self._say_last_words(stream, printing)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _hear(self, pulse: Pulse, data: bytes) -> None:
        """Ends with the connection alone: a process that hears no more may still have something to say."""
        with suppress(BrokenPipeError):
            await write_all(self._process.requests, data)
        while True:
            kind, data = await pulse.read()
            if kind != DATA:
                raise Undecodable("a driver sends data alone")
            with suppress(BrokenPipeError):
                await write_all(self._process.requests, data)

    async def _speak(self, stream: Stream) -> None:
        while data := await read_some(self._process.replies):
            stream.writer.write(chunk(DATA, data))
            await stream.writer.drain()

    async def _print(self, stream: Stream) -> None:
        while data := await read_some(self._log):
            stream.writer.write(chunk(PRINTED, data))
            await stream.writer.drain()

    async def _say_last_words(self, stream: Stream, printing: "asyncio.Future[None]") -> None:
        """The process has closed its end of a pipe: mostly because it ends."""
        looks = round(_ENDING_S / _LOOK_S)
        while (alive := self._process.child.alive()) and (looks := looks - 1) > 0:
            await asyncio.sleep(_LOOK_S)
        code = self._process.child.end()
        self._has_ended = True
        printing.cancel()
        await asyncio.gather(printing, return_exceptions=True)
        with suppress(BlockingIOError):  # programs that it has started may still hold the pipe
            while data := os.read(self._log, LARGEST):
                stream.writer.write(chunk(PRINTED, data))
        stream.writer.write(exit_chunk(None if alive or code == DAMAGED else code))
        await stream.writer.drain()
