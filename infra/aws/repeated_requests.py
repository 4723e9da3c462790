"""Counts the requests that the SDK sends again: AWS may have executed, and bills, each of them."""

import re
import threading
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Self

import msgspec
from msgspec.structs import astuple

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
    """Thread-safe; `count` is a handler of botocore's event ``before-send``."""

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
# at most 1 MB, and BatchGetItem 16 MB of 100 items, each of which is rounded up. UpdateItem takes the units of the
# whole item (developer guide, "Constraints"; API reference, `Query`, `BatchGetItem` and `UpdateItem`).
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
        # The body has the item in base64, which is longer. What the first attempt replaced or deleted is gone.
        return Requests(write_units=ceil(len(_bytes(body)) / 1024))
    return _MOST.get(operation, Requests())


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
