"""Beats tell each end of a connection that the other end is alive, even if a relay keeps the connection open."""

import asyncio

from marless_cluster.remote.chunks import BEAT, chunk, read_chunk
from marless_cluster.remote.handshake import Stream

BEAT_S = 5.0
"""Seconds from one beat to the next."""
SILENT_BEATS = 4
"""A peer that has said nothing for so many beats is lost."""


class Pulse:
    """Both ends of a connection have one from the moment that the worker is admitted."""

    def __init__(self, stream: Stream, beat_s: float = BEAT_S) -> None:
        self._stream, self._beat_s = stream, beat_s
        self._missed, self._is_reading = 0, False

    @property
    def is_in_doubt(self) -> bool:
        """True if the peer is late with a beat, so that it may be lost."""
        return self._missed > 1

    async def read(self) -> tuple[int, bytes]:
        """The next chunk that is no beat. Raises the errors of `read_chunk`."""
        while True:
            self._is_reading = True
            kind, body = await read_chunk(self._stream.reader)
            self._is_reading, self._missed = False, 0
            if kind != BEAT:
                return kind, body

    async def beat(self) -> None:
        """Returns once the peer is silent. While `read` does not wait, the peer counts as alive."""
        while self._missed < SILENT_BEATS:
            self._stream.writer.write(chunk(BEAT, b""))
            await asyncio.sleep(self._beat_s)
            self._missed = self._missed + 1 if self._is_reading else 0
