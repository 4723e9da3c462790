"""Dials a driver until it has taken the worker, or never will."""

import asyncio
import os
import socket
import ssl

from marless.functions.encoding import Undecodable
from marless.functions.system_errors import explain
from marless_cluster.remote.addresses import Address, watch_peer
from marless_cluster.remote.faults import DialInError
from marless_cluster.remote.handshake import PATIENCE_S, Introduction, Stream, apply

_BUFFER = 1 << 20
# Other errors of a name may pass, for example while its server starts.
_FINAL = (socket.EAI_NONAME, socket.EAI_FAMILY, socket.EAI_SERVICE, socket.EAI_SOCKTYPE, socket.EAI_BADFLAGS)


class Away(Exception):
    """Nobody takes the worker for now. The message says why."""


def refusal(address: Address, error: OSError) -> Away | DialInError:
    """Explain the system's error at a connection to the address."""
    match error:
        case socket.gaierror() if error.errno in _FINAL:
            return DialInError(f"there is no host {address.host}: {explain(error, '')}")
        case ssl.SSLCertVerificationError():
            why = error.verify_message.strip().removesuffix(".")
            return DialInError(f"no encrypted connection to {address}, whose certificate is refused: {why}")
        case ssl.SSLError():
            return DialInError(f"no encrypted connection to {address}: {error.reason or error}")
        case socket.gaierror():
            why = explain(error, "")
        case _:
            why = os.strerror(error.errno) if error.errno else "no answer"
    return Away(f"no driver answers at {address} ({why}); dials until one does")


class Dialler:
    """Dials one driver."""

    def __init__(
        self,
        address: Address,
        token: bytes,
        introduction: Introduction,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address, self._token, self._introduction, self._tls = address, token, introduction, tls

    async def dial(self) -> Stream:
        """A connection that the driver has taken. Raises `Away`, and `DialInError` where dialling again is no use."""
        stream = await self._connect()
        try:
            await self._introduce(stream)
        except BaseException:
            stream.writer.close()
            raise
        return stream

    async def _connect(self) -> Stream:
        host = self.address.host or "localhost"
        try:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection(host, self.address.port, ssl=self._tls, limit=_BUFFER)
        except (EOFError, ConnectionResetError, ConnectionAbortedError):
            raise self._hung_up() from None
        except OSError as error:
            raise refusal(self.address, error) from None
        watch_peer(writer.get_extra_info("socket"))
        writer.transport.set_write_buffer_limits(_BUFFER)
        return Stream(reader, writer)

    async def _introduce(self, stream: Stream) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await apply(stream, self._token, self._introduction)
        except DialInError as error:
            raise DialInError(f"cannot serve the driver at {self.address}: {error}") from None
        except Undecodable:
            raise DialInError(
                f"what answers at {self.address} is no driver of marless, or {self._encryption()}"
            ) from None
        except TimeoutError:  # a driver may stand still
            raise Away(f"{self.address} does not say that it is a driver; dials until it does") from None
        except (EOFError, OSError):
            raise self._hung_up() from None

    def _hung_up(self) -> Away:
        """So does a tunnel as long as no driver is behind it, and a driver that ends."""
        return Away(f"{self.address} hangs up: no driver is there yet, or {self._encryption()}; dials until one is")

    def _encryption(self) -> str:
        return "one that encrypts, which needs --tls-ca" if self._tls is None else "one that does not encrypt"
