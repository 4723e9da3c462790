"""Counts the requests to an emulated account for tests of a bill: WSGI middleware that changes no request.

``GET /_account/requests`` returns a `Count` for every service, operation and key since the last ``DELETE``. It also
returns the `Call`s of functions. REPORT lines are in the functions' logs. The path exists only if the account was
started with faults allowed. Requests are counted as AWS bills them. S3 bills every answer below 500, even client errors
(user guide, "Billing for Amazon S3 error responses"). DynamoDB also bills writes with a failed condition (developer
guide, "DynamoDB read and write operations"). Lambda bills accepted requests.
"""

import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from aws_emulator.encoding import from_json, to_json
from aws_emulator.middleware.capacity import Item, item_size, read_units, write_units
from aws_emulator.wsgi import App, Environ, Start, body, operation, reply, service

PATH = "/_account/requests"

_OBJECT = re.compile(r"/(?P<bucket>[^/]+)/(?P<key>.+)")
_BUCKET = re.compile(r"/(?P<bucket>[^/]+)/?")
_DELETED = re.compile(rb"<Key>([^<]+)</Key>")
_PLACEHOLDER = re.compile(r":\w+")
_INVOKED = re.compile(r"/2015-03-31/functions/(?P<name>[^/]+)/invocations/?")
_REFUSED = b"ConditionalCheckFailedException"
# The prefix of temporary access keys (IAM user guide, "Understanding unique ID prefixes").
_ROLE = "Credential=ASIA"


class RequestKind(NamedTuple):
    """The key that groups requests, see `Count`."""

    service: str
    operation: str
    key: tuple[str, ...]
    by: str


class Count(msgspec.Struct, frozen=True):
    """The number of requests of a kind, the capacity units that DynamoDB bills, and the bytes of their bodies.

    `key`: the bucket and the object's key, a listing's prefix or a deletion's first key. For DynamoDB it is the table
    and the values of the item's key or of a query's key condition. `by`: function or operator.
    """

    service: str
    operation: str
    key: tuple[str, ...]
    by: str
    requests: int
    units: float
    bytes: int


class Call(msgspec.Struct, frozen=True):
    """An accepted invocation. `is_synchronous` is True if its caller waited for the answer of `answer` bytes.

    `event` has the event's members that are texts. `requests` are billed: an asynchronous event is one for its first
    256 KB, plus one for each further 64 KB begun (AWS Lambda pricing, "Requests").
    """

    function: str
    request_id: str
    is_synchronous: bool
    by: str
    answer: int
    event: dict[str, str]
    requests: int = 1


class RequestTotals(msgspec.Struct, frozen=True):
    """All counts."""

    counts: list[Count]
    calls: list[Call]


class Answer(NamedTuple):
    """The application's response."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class _Sum:
    requests: int = 0
    units: float = 0.0
    bytes: int = 0


class RequestCounter:
    """Counts the requests to `app`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._sums: dict[RequestKind, _Sum] = defaultdict(_Sum)
        self._calls: list[Call] = []
        self._items: dict[tuple[str, ...], int] = {}
        self._key_schemas: dict[str, list[str]] = {}

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"] == PATH:
            return self._report(environ, start)
        responses: list[tuple[str, list[tuple[str, str]]]] = []

        def record_response(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            responses.append((status, headers))
            start(status, headers)

        request_body = body(environ)
        text = b"".join(self._app(environ, record_response))
        [(status, headers)] = responses
        answer = Answer(int(status.split()[0]), {name.lower(): value for name, value in headers}, text)
        with self._lock:
            self._count(environ, request_body, answer)
        return [text]

    def _report(self, environ: Environ, start: Start) -> Iterable[bytes]:
        with self._lock:
            counts = [Count(*kind, sum_.requests, sum_.units, sum_.bytes) for kind, sum_ in self._sums.items()]
            totals = to_json(RequestTotals(counts, self._calls))
            if environ["REQUEST_METHOD"] == "DELETE":
                # Keeps the item sizes and key schemas, because items and tables still exist.
                self._sums.clear()
                self._calls.clear()
        return reply(start, "200 OK", totals)

    def _count(self, environ: Environ, request_body: bytes, answer: Answer) -> None:
        by = "function" if _ROLE in environ.get("HTTP_AUTHORIZATION", "") else "operator"
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        match service(environ):
            case "s3":
                self._count_s3(environ, request_body, answer, by)
            case "dynamodb":
                self._count_dynamodb(operation(environ), request_body, answer, by)
            case "lambda":
                self._count_lambda(environ, request_body, answer, by)

    def _add(self, kind: RequestKind, units: float, size: int) -> None:
        sum_ = self._sums[kind]
        sum_.requests, sum_.units, sum_.bytes = sum_.requests + 1, sum_.units + units, sum_.bytes + size

    def _count_s3(self, environ: Environ, request_body: bytes, answer: Answer, by: str) -> None:
        method, query = environ["REQUEST_METHOD"], parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        if match := _OBJECT.fullmatch(environ["PATH_INFO"]):
            size = int(environ.get("HTTP_X_AMZ_DECODED_CONTENT_LENGTH") or len(request_body) or len(answer.body))
            self._add(RequestKind("s3", method, (match["bucket"], match["key"]), by), 0, size)
        elif not (match := _BUCKET.fullmatch(environ["PATH_INFO"])):
            return
        elif method == "GET" and "list-type" in query:
            key = (match["bucket"], query.get("prefix", [""])[0])
            self._add(RequestKind("s3", "LIST", key, by), 0, len(answer.body))
        elif method == "POST" and "delete" in query and (keys := _DELETED.findall(request_body)):
            self._add(RequestKind("s3", "DELETE", (match["bucket"], keys[0].decode()), by), 0, len(request_body))

    def _count_dynamodb(self, name: str, request_body: bytes, answer: Answer, by: str) -> None:
        if answer.status != HTTPStatus.OK and _REFUSED not in answer.body:
            return
        request, response = from_json(request_body, dict[str, Any]), from_json(answer.body, dict[str, Any])
        match name:
            case "CreateTable":
                schema = sorted(request["KeySchema"], key=lambda part: part["KeyType"] != "HASH")
                self._key_schemas[request["TableName"]] = [part["AttributeName"] for part in schema]
            case "PutItem" | "UpdateItem" | "DeleteItem":
                key = self._key(request["TableName"], request.get("Item") or request["Key"])
                size, write_units = self._write_size(name, key, request, response, answer.status == HTTPStatus.OK)
                self._add(RequestKind("dynamodb", name, key, by), write_units, size)
            case "GetItem":
                key = self._key(request["TableName"], request["Key"])
                self._count_read(name, key, request, item_size(response.get("Item", {})), by)
            case "BatchGetItem":
                self._count_batch(request, response, by)
            case "Query":
                values = request["ExpressionAttributeValues"]
                placeholders = _PLACEHOLDER.findall(request["KeyConditionExpression"])
                key = (request["TableName"], *(_text(values[name]) for name in placeholders))
                self._count_read(name, key, request, sum(map(item_size, response["Items"])), by)

    def _key(self, table: str, item: Item) -> tuple[str, ...]:
        """The table and the values of the item's key, the partition key first."""
        return (table, *(_text(item[name]) for name in self._key_schemas[table]))

    def _count_read(self, name: str, key: tuple[str, ...], request: Any, size: int, by: str) -> None:
        units = read_units(size, request.get("ConsistentRead", False))
        self._add(RequestKind("dynamodb", name, key, by), units, size)

    def _write_size(self, name: str, key: tuple[str, ...], request: Any, response: Any, done: bool) -> tuple[int, int]:
        """The item's size after the write, and the units of the larger of its sizes before and after."""
        before = self._items.get(key, 0)
        # The item of a refused put is known, too. The answer to an update has the new item (ReturnValues ALL_NEW).
        after: Item = request.get("Item") or response.get("Attributes", {}) if name != "DeleteItem" else {}
        size = item_size(after) if done or name == "PutItem" else before
        if done:
            self._items[key] = size
        return size, write_units(max(before, size))

    def _count_batch(self, request: Any, response: Any, by: str) -> None:
        """Every requested item counts as one read, even a missing one."""
        for table, table_request in request["RequestItems"].items():
            sizes = {self._key(table, item): item_size(item) for item in response["Responses"].get(table, [])}
            for key in (self._key(table, item) for item in table_request["Keys"]):
                self._count_read("BatchGetItem", key, table_request, sizes.get(key, 0), by)

    def _count_lambda(self, environ: Environ, request_body: bytes, answer: Answer, by: str) -> None:
        match = _INVOKED.fullmatch(environ["PATH_INFO"])
        if match is None or answer.status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
            return
        texts = dict(_texts(from_json(request_body or b"{}", Any)))
        request_id, is_synchronous = answer.headers["x-amzn-requestid"], answer.status == HTTPStatus.OK
        beyond = 0 if is_synchronous else max(0, len(request_body) - (256 << 10))
        requests = 1 + ceil(beyond / (64 << 10))
        self._calls.append(Call(match["name"], request_id, is_synchronous, by, len(answer.body), texts, requests))


def _texts(event: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of an event by their name. A text in an inner object has the name ``<its name>.<name>``."""
    for name, value in event.items() if isinstance(event, dict) else ():
        if isinstance(value, str):
            yield f"{prefix}{name}", value
        yield from _texts(value, f"{prefix}{name}.")


def _text(value: Mapping[str, Any]) -> str:
    """The text of a key's value in DynamoDB's JSON, such as ``{"S": "abc"}``."""
    return str(next(iter(value.values())))
