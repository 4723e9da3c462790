"""Foreign peers of a listener: tests tell them each byte to send."""

import asyncio
import threading

from marless_cluster.remote.chunks import BEAT, DATA, chunk, read_chunk
from marless_cluster.remote.handshake import Introduction, Stream, apply


async def connected(listener):
    """A new connection."""
    return Stream(*await asyncio.open_connection("127.0.0.1", listener.address.port))


async def says_nothing_more(stream):
    """Return whether the driver has hung up."""
    try:
        async with asyncio.timeout(10):
            return await stream.reader.read(1) == b""
    except ConnectionError:
        return True


class RecordingWriter:
    def __init__(self, writer):
        self._writer, self.sent = writer, []

    def write(self, data):
        self.sent.append(data)
        self._writer.write(data)

    async def drain(self):
        await self._writer.drain()

    def close(self):
        self._writer.close()


async def recorded_dial(listener, token, badge):
    """A worker that is admitted and leaves. Returns its messages."""
    stream = await connected(listener)
    writer = RecordingWriter(stream.writer)
    await apply(Stream(stream.reader, writer), token, Introduction("recorded", "agent", badge))
    writer.close()
    return writer.sent


class Impostor:
    """A worker that is admitted, and answers its first task with these bytes in place of frames, then hangs up unless
    it `stays`."""

    def __init__(self, listener, token, badge, answer, stays=False, raw=False):
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._listener, self._token, self._badge = listener, token, badge
        self._answer, self._stays, self._raw = answer, stays, raw
        self._thread.start()

    def join(self):
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _serve(self):
        stream = await connected(self._listener)
        await apply(stream, self._token, Introduction("impostor", "agent", self._badge))
        while (await read_chunk(stream.reader))[0] == BEAT:
            continue
        stream.writer.write(self._answer if self._raw else chunk(DATA, self._answer))
        await stream.writer.drain()
        if self._stays:
            try:
                while await stream.reader.read(1 << 16):
                    pass
            except ConnectionError:
                pass
        stream.writer.close()
