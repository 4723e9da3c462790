"""Calls of Lambda's API, one at a time: their errors in terms of the function, and responses as fields of a
`Report`."""

import re
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import msgspec
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ProxyConnectionError,
)

from marless.functions.encoding import JsonDecoder, Undecodable
from marless.functions.text.redaction import redact
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import code, storage_errors

# The most time to connect, and to send a piece of a request (`invoke`), while 256 others share a slow line.
_CONNECT_S = 30.0

# With these errors, the function has not started and costs nothing ("Invoke", API reference).
_TURNED_AWAY = (
    "TooManyRequestsException",
    "ThrottlingException",
    "EC2ThrottledException",
    "ResourceConflictException",
    "ResourceNotReadyException",
)


class _SentInPart(ConnectionClosedError):  # type: ignore[misc]  # published without type information
    """The connection broke before the whole request was sent, so Lambda cannot have started the function."""

    fmt = "the connection broke while the request was being sent: {error}"


_UNSENT = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError, _SentInPart)


def invoking_client(cloud: Cloud, connections: int, answer_s: float) -> Any:
    """A client that does not retry by itself."""
    with storage_errors("open", "AWS Lambda"):
        return cloud.client(
            "lambda",
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=_CONNECT_S,
            read_timeout=answer_s,
            max_pool_connections=connections,
        )


def invoke(client: Any, function: str, payload: bytes, **how: str) -> Any:
    """Return Lambda's response. Raises `_SentInPart` for a request that was not sent whole.

    The body is a file, so it is sent in pieces. The connect time-out also counts while a request is sent, and so it
    allows for each piece instead of for all 6 MB. Bytes read from the file were sent or are about to be.
    """
    body = BytesIO(payload)
    try:
        return client.invoke(FunctionName=function, Payload=body, **how)
    except HTTPClientError as error:
        if body.tell() < len(payload):
            raise _SentInPart(error=error) from error
        raise


def turned_away(error: Exception) -> bool:
    """Return whether the function was certainly not started, for a transient reason."""
    return code(error) in _TURNED_AWAY or isinstance(error, _UNSENT)


def unclear(error: Exception) -> bool:
    """Return whether the function may have been started."""
    broke = isinstance(error, (HTTPClientError, IncompleteReadError)) and not isinstance(error, _UNSENT)
    return broke or status(error) >= 500


def status(error: Exception) -> int:
    """The HTTP status of Lambda's response, 0 if there was none."""
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"]) if isinstance(error, ClientError) else 0


# Synchronous requests and responses hold up to 6 MB, asynchronous events 1 MB (developer guide, "Lambda quotas").
LARGEST = 6 * 1024 * 1024
MOST_IN_BASE64 = LARGEST // 4 * 3
LARGEST_EVENT = 1024 * 1024
SMALLER = (
    "where objects travel inside messages, set placement.inline_objects=false; to learn from thousands of"
    " trajectories, raise placement.pack"
)

# Lambda's own time-out, and the one that our entry point enforces for a single attempt.
_TIMEOUTS = ("Sandbox.Timedout", "AttemptTimedOut")
# Errors of the execution environment. Their cause is in the function's log.
_PLATFORM = ("Runtime.", "Sandbox.", "Extension.")
# Lines that the function did not write.
_NOT_ITS_OWN = re.compile(
    r"(START|END|REPORT|INIT_START|INIT_REPORT|XRAY|RequestId:) |Runtime\.|.* Task timed out after "
)
_LONGEST_LINE = 300


class _Error(msgspec.Struct):
    """Lambda's payload for a failed invocation (developer guide, "Lambda function errors in Python")."""

    type: str = msgspec.field(name="errorType", default="")
    message: str = msgspec.field(name="errorMessage", default="")


_ERRORS = JsonDecoder(_Error)
# An answer begins with other members (`marless.functions.messages.exchange.Answer`).
_REPORTED_ERROR = b'{"errorType"'


@dataclass(frozen=True, slots=True)
class InvocationResult:
    """The end of an invocation, with fields of `marless.functions.messages.exchange.Report`."""

    outcome: Literal["answered", "timeout", "crash", "throttled", "withdrawn"]
    body: bytes = b""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Metering:
    """The metering of the REPORT line, with fields of `marless.functions.messages.exchange.Report`."""

    duration_ms: float = 0.0
    init_ms: float = 0.0
    peak_mb: float = 0.0
    billed_ms: int = 0
    """As Lambda bills it: duration and start-up, rounded up."""


def parse_result(function_error: bool, payload: bytes, log: str) -> InvocationResult:
    """`function_error`: whether Lambda reported a function error. `log`: the end of the invocation's log, 4 KB at most.

    A payload of `reported_error` is an error although Lambda reported none.
    """
    if not function_error and not payload.startswith(_REPORTED_ERROR):
        return InvocationResult("answered", payload)
    try:
        error = _ERRORS.decode(payload)
    except Undecodable:
        error = _Error(message=payload.decode(errors="replace"))
    if error.type == "Function.ResponseSizeTooLarge":
        return InvocationResult("crash", detail=f"its answer is too large: {error.message} {SMALLER}")
    detail = error.message
    if error.type.startswith(_PLATFORM) and (line := _last_words(log)):
        detail = f"{error.message}; its log ends: {line}"
    if error.type in _TIMEOUTS or "Task timed out after" in error.message:
        return InvocationResult("timeout", detail=detail)
    return InvocationResult("crash", detail=f"{error.type}: {detail}" if error.type else detail)


def reported_error(error: Exception) -> dict[str, str]:
    """The reply of an invocation that reports by itself how its attempt ended, in the form of Lambda's own errors."""
    return {"errorType": type(error).__name__, "errorMessage": redact(str(error))}


def metering(log: str) -> Metering | None:
    """Return the metering in the last REPORT line of a log, or None."""
    line = next((line for line in reversed(log.splitlines()) if line.startswith("REPORT ")), None)
    if line is None:
        return None
    fields = dict(part.strip().split(": ", 1) for part in line.split("\t") if ": " in part)

    def figure(name: str) -> float:
        return float(fields.get(name, "0").split()[0])

    durations = figure("Duration"), figure("Init Duration")
    return Metering(*durations, figure("Max Memory Used"), int(figure("Billed Duration")))


def _last_words(log: str) -> str:
    """The function's most informative log line: the fatal error, else the last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not _NOT_ITS_OWN.match(line)]
    fatal = next((line for line in lines if line.startswith("Fatal Python error")), "")
    return (fatal or (lines[-1] if lines else ""))[:_LONGEST_LINE]
