"""Fault injection for tests: WSGI middleware that answers chosen requests with errors of AWS.

``POST /_account/faults`` with a JSON list of `Rule` adds rules before the existing ones. ``DELETE`` removes all rules.
``GET`` returns the faults injected since then. The path exists only if the account was started with faults allowed.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import msgspec

from aws_emulator import network
from aws_emulator.encoding import from_json, to_json
from aws_emulator.network import Network
from aws_emulator.tcp_table import inode
from aws_emulator.wsgi import App, Dropped, Environ, Start, body, operation, reply, service

PATH = "/_account/faults"

Fault = Literal[
    "slow_down", "conflict", "throttle", "too_many", "error", "delay", "drop", "lost_reply", "twice", "swallow", "kill"
]
# The requests that change state: methods of S3 and Lambda, operations of DynamoDB.
WRITE = "write"
_WRITES = ("PUT", "DELETE", "POST", "PutItem", "UpdateItem", "DeleteItem")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault for the next `count` matching requests.

    `service` is the signing name (s3, dynamodb, lambda). `action` is the operation of a JSON service, else the HTTP
    method. `write` matches every write. `key` is a part of the path, or of the body of a request to DynamoDB or Lambda.
    '' matches everything. With `functions`, only requests of functions match, not the operator's. The first `skip`
    matching requests pass unchanged. `delay_s` is for `delay`.

    `slow_down`: S3's 503. `conflict`: S3's 409 for conflicting conditional writes. `throttle`: DynamoDB's throttling.
    `too_many`: Lambda's 429. `error`: a 500. `drop`: the connection closes before the request is executed.
    `lost_reply`: after it. `twice`: the request is executed twice. `swallow`: an event is accepted and dropped. `kill`:
    the request is executed, and the process that sent it is killed before the answer.
    """

    service: str
    fault: Fault
    functions: bool = False
    action: str = ""
    key: str = ""
    count: int = 1
    skip: int = 0
    delay_s: float = 0.0


class InjectedFault(msgspec.Struct, frozen=True):
    """A request that a rule was applied to."""

    fault: Fault
    action: str
    path: str


_XML = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{}</Code><Message>{}</Message></Error>"
_JSON = "application/json"


class Faults:
    """Applies the rules to each request before `app` gets it."""

    def __init__(self, app: App, network: Network) -> None:
        self._app, self._network = app, network
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._injected: list[InjectedFault] = []

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"] == PATH:
            return self._manage(environ, start)
        if environ["PATH_INFO"] == network.PATH:
            return self._network.manage(environ, start)
        rule = self._due(environ)
        if rule is None:
            return self._app(environ, start)
        if rule.fault == "delay":
            time.sleep(rule.delay_s)
            return self._app(environ, start)
        if rule.fault in ("lost_reply", "twice", "kill"):
            b"".join(self._app(environ, lambda *_: None))
            environ["wsgi.input"].seek(0)
        return self._apply_fault(rule.fault, environ, start)

    def _apply_fault(self, fault: Fault, environ: Environ, start: Start) -> Iterable[bytes]:
        if fault == "twice":
            return self._app(environ, start)
        if fault == "kill":
            _kill(environ)
        if fault in ("drop", "lost_reply", "kill"):
            raise Dropped
        return _ANSWERS[fault](start)

    def _manage(self, environ: Environ, start: Start) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        with self._lock:
            if method == "POST":
                self._rules = from_json(body(environ), list[Rule]) + self._rules
            elif method == "DELETE":
                self._rules, self._injected = [], []
            return reply(start, "200 OK", to_json(self._injected))

    def _due(self, environ: Environ) -> Rule | None:
        """Returns the first matching rule and counts its use, or None."""
        if not self._rules:
            return None
        meant_for, action = service(environ), operation(environ)
        with self._lock:
            for index, rule in enumerate(self._rules):
                if not _fits(rule, meant_for, action, environ):
                    continue
                if rule.skip:
                    self._rules[index] = msgspec.structs.replace(rule, skip=rule.skip - 1)
                    return None
                if rule.count > 1:
                    self._rules[index] = msgspec.structs.replace(rule, count=rule.count - 1)
                else:
                    del self._rules[index]
                self._injected.append(InjectedFault(rule.fault, action, environ["PATH_INFO"]))
                return rule
        return None


def _fits(rule: Rule, meant_for: str, action: str, environ: Environ) -> bool:
    if rule.service not in ("", meant_for) or rule.action not in ("", action, WRITE):
        return False
    if rule.action == WRITE and (action not in _WRITES or not meant_for):
        return False
    # The prefix of temporary access keys (IAM user guide, "Understanding unique ID prefixes").
    if rule.functions and "Credential=ASIA" not in environ.get("HTTP_AUTHORIZATION", ""):
        return False
    return _touches(environ, rule.key)


def _kill(environ: Environ) -> None:
    """Kills the process that sent the request, if it still runs."""
    if pid := process_of(int(environ["REMOTE_PORT"]), int(environ["SERVER_PORT"])):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _touches(environ: Environ, key: str) -> bool:
    if not key or key in environ["PATH_INFO"] or quote(key) in environ.get("RAW_URI", ""):
        return True
    return service(environ) in ("dynamodb", "lambda") and key.encode() in body(environ)


def _s3(status: HTTPStatus, code: str, message: str) -> Callable[[Start], Iterable[bytes]]:
    text = _XML.format(code, message).encode()
    return lambda start: reply(start, f"{status.value} {status.phrase}", text, "application/xml")


def _table_throttled(start: Start) -> Iterable[bytes]:
    kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
    text = {"__type": kind, "message": "The level of configured provisioned throughput for the table was exceeded."}
    return reply(start, "400 Bad Request", to_json(text), "application/x-amz-json-1.0")


def _function_throttled(start: Start) -> Iterable[bytes]:
    text = {"Reason": "ConcurrentInvocationLimitExceeded", "Type": "User", "message": "Rate Exceeded."}
    error = ("x-amzn-ErrorType", "TooManyRequestsException")
    return reply(start, "429 Too Many Requests", to_json(text), _JSON, error)


# "Error responses" of the S3 and DynamoDB API references, and "Invoke" of the Lambda API reference.
_ANSWERS: dict[str, Callable[[Start], Iterable[bytes]]] = {
    "slow_down": _s3(HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown", "Please reduce your request rate."),
    "conflict": _s3(
        HTTPStatus.CONFLICT,
        "ConditionalRequestConflict",
        "The conditional request cannot succeed due to a conflicting operation against this resource.",
    ),
    "throttle": _table_throttled,
    "too_many": _function_throttled,
    "swallow": lambda start: reply(start, "202 Accepted", b""),
    "error": lambda start: reply(start, "500 Internal Server Error", b'{"message": "injected"}'),
}


def process_of(port: int, server_port: int) -> int | None:
    """The process connected from `port` of 127.0.0.1 to `server_port`. None if it has ended."""
    socket_inode = inode(port, server_port)
    return _holder(f"socket:[{socket_inode}]") if socket_inode else None


def _holder(socket: str) -> int | None:
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            for entry in os.scandir(folder):
                with suppress(OSError):
                    if str(Path(entry.path).readlink()) == socket:
                        return int(folder.parent.name)
    return None
