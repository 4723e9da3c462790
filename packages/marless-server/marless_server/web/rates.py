"""Limits of requests for each address and each token. Their memory is bounded."""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from marless_server.web.problems import Problem

_IPV6_PREFIX = 64
# A request without a valid token costs as much as this number of other requests.
_FAILURE = 30


class RateLimit:
    """Allow each name `burst` requests at once, and `per_s` more each second.

    This is the generic cell rate algorithm (ITU-T I.371). It keeps one time for each name, and at most `most` names.
    With more names, the oldest name begins again. So a flood of names leaves all other names alone.
    """

    def __init__(
        self, burst: int, per_s: float, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst_s, self._request_s, self._most, self._clock = (burst - 1) / per_s, 1 / per_s, most, clock
        self._free_at: OrderedDict[str, float] = OrderedDict()

    @property
    def names(self) -> int:
        """The number of names in memory."""
        return len(self._free_at)

    def wait_s(self, name: str) -> float:
        """Return the seconds until the next request of a name is allowed."""
        return max(0.0, self._free_at.get(name, 0.0) - self._burst_s - self._clock())

    def count(self, name: str, requests: int = 1) -> None:
        """Count requests of a name."""
        free_at = max(self._free_at.pop(name, 0.0), self._clock())
        self._free_at[name] = free_at + requests * self._request_s
        if len(self._free_at) > self._most:
            self._free_at.popitem(last=False)


class Rates:
    """The limits of a server.

    All people behind a proxy or a tunnel on the same machine have its loopback address. So this address limits only
    requests without a valid token.
    """

    def __init__(self, addresses: RateLimit | None = None, tokens: RateLimit | None = None) -> None:
        self._addresses, self._tokens = addresses or RateLimit(300, 100.0), tokens or RateLimit(300, 100.0)

    def arrive(self, host: str) -> None:
        """Count a request of an address. Raises `Problem` if it sent too many."""
        if not is_shared(address := network(host)):
            _refuse(self._addresses.wait_s(address), "address")
            self._addresses.count(address)

    def fail(self, host: str) -> None:
        """Count a request without a valid token. Raises `Problem` if the address sent too many."""
        _refuse(self._addresses.wait_s(address := network(host)), "address")
        self._addresses.count(address, _FAILURE)

    def pass_token(self, token_id: str) -> None:
        """Count a request with a valid token. Raises `Problem` if there were too many."""
        _refuse(self._tokens.wait_s(token_id), "token")
        self._tokens.count(token_id)


def network(host: str) -> str:
    """Return the name of an address in the limits. One machine can have all IPv6 addresses with the same 64 bits."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.version == 4 or address.is_loopback:
        return str(address)
    return str(ipaddress.ip_network((int(address), _IPV6_PREFIX), strict=False))


def is_shared(address: str) -> bool:
    """Return whether an address is a loopback address, which a proxy and its users share."""
    return address == "::1" or address.startswith("127.")


def _refuse(wait_s: float, name: str) -> None:
    if wait_s > 0:
        seconds = math.ceil(wait_s)
        text = f"this {name} sends too many requests; wait {seconds} s"
        raise Problem(429, text, headers={"Retry-After": str(seconds)})
