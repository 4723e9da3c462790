"""Through which proxy a service is asked: the variables http_proxy, https_proxy, all_proxy and no_proxy say so.

Each may be in capitals. Errors name the variable and never its value, which may hold a password.
"""

import base64
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment

from marless.functions.resources.serving.kinds.kind import NoAnswer

_PORT = 80


class Proxy(NamedTuple):
    """A proxy, and the headers that it is sent."""

    host: str
    port: int
    headers: Mapping[str, str]


def proxy_of(address: SplitResult) -> Proxy | None:
    """Return the proxy of a service, or None if it is asked directly, as every service of this machine is.

    Raises `NoAnswer` for a proxy that cannot be used.
    """
    proxies = getproxies_environment()
    scheme = address.scheme if proxies.get(address.scheme) else "all"
    if not proxies.get(scheme) or _is_direct(address, proxies.get("no", "")):
        return None
    return _proxy(proxies[scheme], f"{scheme}_proxy")


def _is_direct(address: SplitResult, no_proxy: str) -> bool:
    host, place = address.hostname or "", address.netloc.lower()
    names = [name.strip().lower().removeprefix("*").lstrip(".") for name in no_proxy.split(",") if name.strip()]
    domains = ["localhost", *names]
    if any(not name or f".{each}".endswith(f".{name}") for name in domains for each in (host, place)):
        return True
    try:
        number = ip_address(host)
    except ValueError:
        return False
    return number.is_loopback or any(_holds(name, number) for name in names)


def _holds(network: str, number: object) -> bool:
    try:
        return number in ip_network(network.strip("[]"), strict=False)
    except ValueError:
        return False


def _proxy(text: str, variable: str) -> Proxy:
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host, port = None, _PORT
    if not host:
        raise NoAnswer(f"{variable} is no address of a proxy, such as http://proxy.example:3128")
    if parts.scheme != "http":
        raise NoAnswer(f"{variable} names a proxy that is not asked by http://; add the service to no_proxy")
    if parts.username is None:
        return Proxy(host, port, {})
    words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(host, port, {"Proxy-Authorization": f"Basic {base64.b64encode(words.encode()).decode()}"})
