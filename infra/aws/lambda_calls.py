"""Calls of Lambda's API, one at a time, and what their errors say of the function."""

from io import BytesIO
from typing import Any

from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ProxyConnectionError,
)

from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import code, storage_errors

# The most time to connect, and to send a piece of a request (`invoke`), while 256 others share a slow line.
_CONNECT_S = 30.0

# With these, nothing has run and nothing is billed ("Invoke", API reference).
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
    """Lambda's response; raises `_SentInPart` for a request that was not sent whole.

    The body is a file, so it is sent in pieces, and the connect time-out, which counts while a request is sent, allows
    for each piece instead of for all 6 MB. What was read of the file was sent or is about to be.
    """
    body = BytesIO(payload)
    try:
        return client.invoke(FunctionName=function, Payload=body, **how)
    except HTTPClientError as error:
        if body.tell() < len(payload):
            raise _SentInPart(error=error) from error
        raise


def turned_away(error: Exception) -> bool:
    """Whether the function was certainly not started, for a transient reason."""
    return code(error) in _TURNED_AWAY or isinstance(error, _UNSENT)


def unclear(error: Exception) -> bool:
    """Whether the function may have been started."""
    broke = isinstance(error, (HTTPClientError, IncompleteReadError)) and not isinstance(error, _UNSENT)
    return broke or status(error) >= 500


def status(error: Exception) -> int:
    """The HTTP status of Lambda's response, 0 if there was none."""
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"]) if isinstance(error, ClientError) else 0
