"""Clients for AWS services, or for an endpoint that emulates them, with this project's settings.

They count the requests that the SDK sends again: AWS may have executed, and bills, each of them.
"""

import os
import re
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from getpass import getpass
from math import ceil
from threading import Lock
from typing import Any, Self

import msgspec
from botocore.config import Config
from botocore.exceptions import UnknownCredentialError
from botocore.loaders import create_loader
from botocore.session import Session
from msgspec.structs import astuple

from marless.functions.text.redaction import learn
from marless.infra.aws.error_messages import named_causes

# Attempts of one call, the first included, with the SDK's back-off and jitter between them ("standard" mode).
ATTEMPTS = 8
CONNECT_S = 5.0
READ_S = 60.0

if sys.platform == "darwin":
    _IDLE = socket.TCP_KEEPALIVE
else:
    _IDLE = socket.TCP_KEEPIDLE
# Keepalive probes begin after 45 s of silence and end a dead connection a minute later. NAT gateways forget silent
# connections after 350 s (VPC user guide, "NAT gateway basics"), home routers sooner. With the kernel's default the
# first probe comes after two hours (tcp(7)).
_KEEPALIVE = [
    (socket.IPPROTO_TCP, _IDLE, 45),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
]

# With a given endpoint and keys, the user's AWS configuration is ignored, with any errors in it. Name in the file, name
# in the environment, default, conversion (`botocore.configprovider`).
_NOTHING_OF_THE_USER = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
    "sts_regional_endpoints": (None, None, "regional", None),
    "defaults_mode": (None, None, "legacy", None),
}

# A session may not create two clients at once (boto3 guide, "Multithreading or multiprocessing with clients").
_MAKING = Lock()


# The SDK numbers attempts from 1 ("Retry behavior", AWS SDKs and Tools reference guide).
_ATTEMPT = re.compile(rb"attempt=(\d+)")


class Requests(msgspec.Struct, frozen=True):
    """Numbers of S3 requests, and capacity units of DynamoDB: the most that the requests can have taken."""

    puts: int = 0
    gets: int = 0
    lists: int = 0
    write_units: int = 0
    read_units: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(*(map(sum, zip(astuple(self), astuple(other), strict=True))))


@dataclass
class RepeatedRequests:
    """Counts repeated requests, for any thread. `count` is a handler of botocore's event ``before-send``."""

    _sum: Requests = field(default_factory=Requests)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, request: Any, event_name: str, **_: Any) -> None:
        """Counts the request unless it is its first attempt."""
        attempt = _ATTEMPT.search(_bytes(request.headers.get("amz-sdk-request", b"")))
        if attempt is None or int(attempt[1]) < 2:
            return
        requests = _request_units(event_name.rpartition(".")[2], request.body)
        with self._lock:
            self._sum += requests

    def take(self) -> Requests:
        """The requests since the last call."""
        with self._lock:
            requests, self._sum = self._sum, Requests()
        return requests


# The most that a request takes that is not in its body. An item has at most 400 KB. In units of 4 KB, a query returns
# at most 1 MB. BatchGetItem returns 16 MB of 100 items, each rounded up. UpdateItem takes the units of the whole item
# (developer guide, "Constraints"; API reference, `Query`, `BatchGetItem` and `UpdateItem`).
_MOST = {
    "PutObject": Requests(puts=1),
    "GetObject": Requests(gets=1),
    "HeadObject": Requests(gets=1),
    "ListObjectsV2": Requests(lists=1),
    "UpdateItem": Requests(write_units=400),
    "GetItem": Requests(read_units=100),
    "Query": Requests(read_units=256),
    "BatchGetItem": Requests(read_units=4096 + 100),
}


def _request_units(operation: str, body: Any) -> Requests:
    if operation in ("PutItem", "DeleteItem"):
        # The body has the item in base64, which is longer. The item that the first attempt replaced or deleted is gone.
        return Requests(write_units=ceil(len(_bytes(body)) / 1024))
    return _MOST.get(operation, Requests())


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


@dataclass(frozen=True)
class Cloud:
    """A region of an account, accessed with one set of credentials.

    `endpoint` replaces AWS's own addresses. `credentials` are (access key, secret, session token). Without them the SDK
    uses its default provider chain (environment, profile, the function's role).
    """

    region: str | None = None
    endpoint: str | None = None
    credentials: tuple[str, str, str | None] | None = field(default=None, repr=False)
    profile: str | None = None
    retries: RepeatedRequests = field(default_factory=RepeatedRequests, repr=False, compare=False)

    @classmethod
    def here(cls) -> Self:
        """From the environment variables, inside a function or on a machine that emulates one."""
        return cls(endpoint=os.environ.get("AWS_ENDPOINT_URL"))

    def client(self, service: str, **settings: Any) -> Any:
        """A thread-safe client of `service`. `settings` override `Config`. Without `settings` every call returns the
        same client."""
        with _MAKING:
            if settings:
                return self._create(service, settings)
            if service not in self._clients:
                self._clients[service] = self._create(service, {})
            return self._clients[service]

    def _create(self, service: str, settings: Mapping[str, Any]) -> Any:
        overrides: Mapping[str, Any] = {
            "retries": {"mode": "standard", "total_max_attempts": ATTEMPTS},
            "connect_timeout": CONNECT_S,
            "read_timeout": READ_S,
            "max_pool_connections": 64,
            "tcp_keepalive": True,
            "s3": {"addressing_style": "path" if self.endpoint else "auto"},
            # An emulator is local and not reachable through a proxy.
            **({"proxies": {}} if self.endpoint else {}),
            **settings,
        }
        key, secret, token = self.credentials or (None, None, None)
        with named_causes():
            client = self._session.create_client(
                service,
                region_name=self.region,
                endpoint_url=self.endpoint,
                aws_access_key_id=key,
                aws_secret_access_key=secret,
                aws_session_token=token,
                config=Config(**overrides),
            )
        client.meta.events.register("before-send", self.retries.count)
        if not self.credentials:
            client.meta.events.register("provide-client-params", self._look_at_credentials)
        # `Config` has no setting for the intervals (botocore issue 2916). New sockets get this list. A botocore that
        # keeps it elsewhere uses the kernel's intervals.
        with suppress(AttributeError):
            client._endpoint.http_session._socket_options.extend(_KEEPALIVE)
        return client

    def _look_at_credentials(self, **_: Any) -> None:
        """Get credentials before a call does, so that errors name their cause and messages hide the credentials."""
        with named_causes():
            credentials = self._session.get_credentials()
            keys = credentials.get_frozen_credentials() if credentials else None
        if keys:
            learn("AWS_SECRET_ACCESS_KEY", keys.secret_key or "")
            learn("AWS_SESSION_TOKEN", keys.token or "")

    @cached_property
    def _clients(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _session(self) -> Session:
        if self.endpoint and self.credentials:
            return _session_of(self.endpoint)
        session = configured_session()
        if self.profile:
            session.set_config_variable("profile", self.profile)
        # There is no setting for who asks for a code of MFA. Without a terminal `getpass` reads standard input, aloud.
        with suppress(AttributeError, UnknownCredentialError):
            session.get_component("credential_provider").get_provider("assume-role")._prompter = _code_of_mfa
        return session


def _code_of_mfa(question: str) -> str:
    """Ask on the terminal of this process. Raises `EOFError` if there is none."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        raise EOFError from None
    return getpass(question)


# The service models are read once for all sessions of this process that look for them in the same folders.
_loader = lru_cache(maxsize=4)(create_loader)


def configured_session() -> Session:
    """A new session with the user's configuration."""
    session = Session()
    session.lazy_register_component("data_loader", lambda: _loader(session.get_config_variable("data_path")))
    return session


@lru_cache(maxsize=8)
def _session_of(endpoint: str) -> Session:
    """One session for all clients of an endpoint, without the user's configuration."""
    session = Session(_NOTHING_OF_THE_USER)
    session.register_component("data_loader", _loader(None))
    return session
