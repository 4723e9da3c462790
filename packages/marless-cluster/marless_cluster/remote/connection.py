"""A worker's connection as the driver sees it."""

import asyncio
import os
from contextlib import suppress
from typing import NamedTuple

from marless.functions.encoding import Undecodable
from marless_cluster.remote.chunks import DATA, EXIT, chunk, exit_code
from marless_cluster.remote.descriptors import read_some, write_all
from marless_cluster.remote.handshake import Introduction, Stream
from marless_cluster.remote.pulse import Pulse


class Ends(NamedTuple):
    """The worker's ends of its pipes to a pool."""

    requests: int
    replies: int
    log: int


class WorkerConnection:
    """It is idle until a pool `begins` to use it.

    Then it passes bytes of the pool to the worker, and bytes of the worker to the pool. It ends when one of them ends
    it, or the worker's machine is silent. Its loop's thread does that. `begin` is called there.
    """

    def __init__(self, stream: Stream, introduction: Introduction, pulse: Pulse) -> None:
        self._stream, self.introduction, self.pulse = stream, introduction, pulse
        self._ends: asyncio.Future[Ends] = asyncio.get_running_loop().create_future()
        self.closed = False
        """Whether nothing can be asked any more; set before the pool's pipes are closed, as is `exit_code`."""
        self.exit_code: int | None = None

    def begin(self, ends: Ends) -> None:
        """A pool uses it from now on, by pipes that do not block."""
        if self.closed or self._ends.done():
            _close(ends)
        else:
            self._ends.set_result(ends)

    def end(self) -> None:
        """Ends it, unless a pool uses it."""
        self._ends.cancel()

    async def serve(self) -> None:
        """Returns when it has ended. Raises `Undecodable` for bytes that workers never send."""
        parts = [asyncio.ensure_future(part) for part in (self._send(), self._receive(), self.pulse.beat())]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.closed = True
            for part in parts:
                part.cancel()
            results = await asyncio.gather(*parts, return_exceptions=True)
            if self._ends.done() and not self._ends.cancelled():
                _close(self._ends.result())
            self._stream.writer.close()
        for result in results:
            if isinstance(result, Undecodable):
                raise result

    async def _send(self) -> None:
        ends = await asyncio.shield(self._ends)
        while data := await read_some(ends.requests):
            self._stream.writer.write(chunk(DATA, data))
            await self._stream.writer.drain()

    async def _receive(self) -> None:
        while True:
            kind, body = await self.pulse.read()
            if not self._ends.done():
                raise Undecodable("it spoke before it was asked")
            if kind == EXIT:
                self.exit_code = exit_code(body)
                return
            ends = self._ends.result()
            await write_all(ends.replies if kind == DATA else ends.log, body)


class RemoteChild:
    """The worker as a pool sees it, in the form of `marless.infra.local.processes.process_starters.Child`."""

    pid = 0

    def __init__(self, connection: WorkerConnection) -> None:
        self._connection = connection
        self.place, self.agent = connection.introduction.host, connection.introduction.agent

    def alive(self) -> bool:
        return not self._connection.closed

    def end(self) -> int | None:
        """The pool has closed its pipes, which ends the connection, and the worker's agent ends the process."""
        return self._connection.exit_code


def _close(ends: Ends) -> None:
    for descriptor in ends:
        with suppress(OSError):
            os.close(descriptor)
