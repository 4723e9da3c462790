"""Connections: the number that each address may have, and the seconds that each may be idle."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from marless_server.web.rates import is_shared, network

MOST_CONNECTIONS = 200


class BoundedConnection(H11Protocol):
    """A connection over HTTP/1.1, which is cut early.

    Attributes:
        most_of_address: connections of one address. More are cut at once
        most_of_machine: connections of a loopback address, which a proxy and its users share
        headers_s: seconds until the headers of a request are complete
        reading_s: seconds until a client that does not read continues
    """

    most_of_address, most_of_machine = MOST_CONNECTIONS // 5, MOST_CONNECTIONS * 4 // 5
    headers_s, reading_s = 10.0, 60.0
    address = ""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Cut the connection if its address has too many."""
        super().connection_made(transport)
        self.address = network(self.client[0] if self.client else "")
        count = sum(getattr(connection, "address", "") == self.address for connection in self.connections)
        if count > (self.most_of_machine if is_shared(self.address) else self.most_of_address):
            transport.abort()
        else:
            self._cut_after(self.headers_s)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._go_on()
        elif self._deadline is None:
            self._cut_after(self.headers_s)

    def pause_writing(self) -> None:
        """Wait for a client that does not read."""
        super().pause_writing()
        self._cut_after(self.reading_s)

    def resume_writing(self) -> None:
        """Continue to write."""
        super().resume_writing()
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._go_on()

    def _cut_after(self, seconds: float) -> None:
        self._go_on()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _go_on(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None
