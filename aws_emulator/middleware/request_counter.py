"""Counts the requests to an emulated account for tests of the bill: WSGI middleware that changes no request.

``GET /_account/requests`` returns a `Count` of every run's requests since the last ``DELETE``, by service and
operation, and the `Call`s of functions; REPORT lines are in the functions' logs. The path exists only if the account
was started with faults allowed. Requests are counted as AWS bills them: S3 bills every answer below 500, including
client errors (user guide, "Billing for Amazon S3 error responses"); DynamoDB also bills writes whose condition failed
(developer guide, "DynamoDB read and write operations"); Lambda bills accepted requests.
"""

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from aws_emulator.middleware.capacity import Item, item_size, read_units, write_units
from aws_emulator.wsgi import App, Environ, Start, body, operation, reply, service

PATH = "/_account/requests"

_KEY = re.compile(r"/[^/]+/tenants/[^/]+/(?:runs/(?P<run>[^/]+)|[^/]+)/(?P<key>.*)")
_PREFIX = re.compile(r"tenants/[^/]+/runs/(?P<run>[^/]+)/.*")
_DELETED = re.compile(rb"<Key>(tenants/[^<]+)</Key>")
_INVOKED = re.compile(r"/2015-03-31/functions/(?P<name>[^/]+)/invocations/?")
_REFUSED = b"ConditionalCheckFailedException"
# The prefix of temporary access keys (IAM user guide, "Understanding unique ID prefixes").
_ROLE = "Credential=ASIA"


class RequestKind(NamedTuple):
    """The key by which requests are grouped. `by`: function or operator. `name`: the kind of object or item."""

    run: str
    service: str
    operation: str
    name: str
    by: str


class Count(msgspec.Struct, frozen=True):
    """The number of requests of a kind, the capacity units that DynamoDB bills, and the bytes of their bodies."""

    run: str
    service: str
    operation: str
    name: str
    by: str
    requests: int
    units: float
    bytes: int


class Call(msgspec.Struct, frozen=True):
    """An accepted invocation; `waited` is True if its caller waited for the answer of `answer` bytes."""

    run: str
    function: str
    request_id: str
    waited: bool
    by: str
    answer: int


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
        self._items: dict[tuple[str, str], int] = {}

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
            totals = msgspec.json.encode(RequestTotals(counts, self._calls))
            if environ["REQUEST_METHOD"] == "DELETE":
                # Keeps the item sizes, because the items still exist.
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
        if found := _KEY.fullmatch(environ["PATH_INFO"]):
            size = int(environ.get("HTTP_X_AMZ_DECODED_CONTENT_LENGTH") or len(request_body) or len(answer.body))
            self._add(RequestKind(found["run"] or "", "s3", method, found["key"].split("/")[0], by), 0, size)
        elif method == "GET" and "list-type" in query:
            listed = _PREFIX.fullmatch(query.get("prefix", [""])[0])
            self._add(RequestKind(listed["run"] if listed else "", "s3", "LIST", "", by), 0, len(answer.body))
        elif method == "POST" and "delete" in query and (keys := _DELETED.findall(request_body)):
            listed = _PREFIX.fullmatch(keys[0].decode())
            self._add(RequestKind(listed["run"] if listed else "", "s3", "DELETE", "", by), 0, len(request_body))

    def _count_dynamodb(self, name: str, request_body: bytes, answer: Answer, by: str) -> None:
        if answer.status != HTTPStatus.OK and _REFUSED not in answer.body:
            return
        request, found = json.loads(request_body), json.loads(answer.body)
        match name:
            case "PutItem" | "UpdateItem" | "DeleteItem":
                key = request.get("Item") or request["Key"]
                size, written = self._written(name, key, request, found, answer.status == HTTPStatus.OK)
                self._add(_of_item(key, name, by), written, size)
            case "GetItem":
                self._count_read(name, request["Key"], request, item_size(found.get("Item", {})), by)
            case "BatchGetItem":
                self._count_batch(request, found, by)
            case "Query":
                values = dict(request["ExpressionAttributeValues"])
                key = {"scope": values.pop(":scope"), "item": next(iter(values.values()), {"S": ""})}
                self._count_read(name, key, request, sum(map(item_size, found["Items"])), by)

    def _count_read(self, name: str, key: Item, request: Any, size: int, by: str) -> None:
        self._add(_of_item(key, name, by), read_units(size, request.get("ConsistentRead", False)), size)

    def _written(self, name: str, key: Item, request: Any, found: Any, done: bool) -> tuple[int, int]:
        """The item's size after the write, and the units of the larger of its sizes before and after."""
        place = (key["scope"]["S"], key["item"]["S"])
        before = self._items.get(place, 0)
        # The item of a refused put is known, too; the answer to an update has the new item (ReturnValues ALL_NEW).
        after: Item = request.get("Item") or found.get("Attributes", {}) if name != "DeleteItem" else {}
        size = item_size(after) if done or name == "PutItem" else before
        if done:
            self._items[place] = size
        return size, write_units(max(before, size))

    def _count_batch(self, request: Any, found: Any, by: str) -> None:
        """Every requested item counts as one read, even a missing one."""
        [(table, wanted)] = request["RequestItems"].items()
        sizes = {(item["scope"]["S"], item["item"]["S"]): item_size(item) for item in found["Responses"][table]}
        for key in wanted["Keys"]:
            size = sizes.get((key["scope"]["S"], key["item"]["S"]), 0)
            self._count_read("BatchGetItem", key, wanted, size, by)

    def _count_lambda(self, environ: Environ, request_body: bytes, answer: Answer, by: str) -> None:
        found = _INVOKED.fullmatch(environ["PATH_INFO"])
        if found is None or answer.status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
            return
        waited, run = answer.status == HTTPStatus.OK, str(json.loads(request_body or b"{}").get("run", ""))
        size = len(answer.body)
        self._calls.append(Call(run, found["name"], answer.headers["x-amzn-requestid"], waited, by, size))


def _of_item(key: Item, operation: str, by: str) -> RequestKind:
    """Scopes are ``run/<tenant>/<run>``, ``sets/<tenant>/<run>/<set>``, and ``live/<tenant>`` with one item per run."""
    scope, item = key["scope"]["S"].split("/"), key["item"]["S"]
    if scope[0] == "live":
        return RequestKind(item, "dynamodb", operation, "live", by)
    return RequestKind(scope[2], "dynamodb", operation, item.split("/")[0], by)
