"""Error responses of AWS in the form of each protocol, so that SDKs raise the same exceptions as on AWS.

Sources are the S3 API reference, "Error responses", and the AWS service APIs, "Common error types". Also the Smithy
specification, "AWS JSON", "AWS query" and "Smithy RPC v2 CBOR protocol".
"""

import uuid
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple
from xml.sax.saxutils import escape

from aws_emulator.encoding import to_json
from aws_emulator.wsgi import Environ, Start, reply


class _Codes(NamedTuple):
    """An error's code for S3, for services with a query API, and for all others."""

    s3: str
    query: str
    other: str


class Denial(Enum):
    """The reason of a refusal."""

    DENIED = _Codes("AccessDenied", "AccessDenied", "AccessDeniedException")
    UNSIGNED = _Codes("AccessDenied", "MissingAuthenticationToken", "MissingAuthenticationTokenException")
    UNKNOWN_KEY = _Codes("InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException")
    EXPIRED = _Codes("ExpiredToken", "ExpiredToken", "ExpiredTokenException")


_SENTENCES = {
    Denial.UNSIGNED: "The request is not signed.",
    Denial.UNKNOWN_KEY: "The security token included in the request is invalid.",
    Denial.EXPIRED: "The security token included in the request is expired",
}


def deny(environ: Environ, start: Start, service: str, why: Denial, message: str = "") -> Iterable[bytes]:
    """Answers for `service` that the request is refused. `message` is the text of `DENIED`."""
    text, codes, request = message or _SENTENCES[why], why.value, str(uuid.uuid4())
    if environ.get("HTTP_SMITHY_PROTOCOL") == "rpc-v2-cbor":
        cbor = _cbor({"__type": f"com.amazonaws.{service}#{codes.other}", "message": text})
        return reply(start, "403 Forbidden", cbor, "application/cbor", ("smithy-protocol", "rpc-v2-cbor"))
    if environ.get("CONTENT_TYPE", "").startswith("application/x-amz-json-"):
        answer = to_json({"__type": f"com.amazon.coral.service#{codes.other}", "message": text})
        return reply(start, "400 Bad Request", answer, environ["CONTENT_TYPE"], ("x-amzn-RequestId", request))
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded") and service != "s3":
        return reply(start, "403 Forbidden", _query(codes.query, text, request), "text/xml")
    if service in ("s3", ""):
        # An answer to HEAD has no body, but the Content-Length of one.
        return reply(start, "403 Forbidden", _s3(codes.s3, text, request), "application/xml")
    document = to_json({"message": text})
    return reply(start, "403 Forbidden", document, "application/json", ("x-amzn-ErrorType", codes.other))


def _s3(code: str, message: str, request: str) -> bytes:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{escape(message)}</Message><RequestId>{request}</RequestId></Error>"
    ).encode()


def _query(code: str, message: str, request: str) -> bytes:
    return (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
        f"<RequestId>{request}</RequestId></ErrorResponse>"
    ).encode()


def _cbor(fields: dict[str, str]) -> bytes:
    """Encodes a map of fewer than 24 texts as CBOR (RFC 8949, 3.1)."""
    pairs = b"".join(_cbor_text(name) + _cbor_text(value) for name, value in fields.items())
    return bytes([0xA0 + len(fields)]) + pairs


def _cbor_text(text: str) -> bytes:
    data = text.encode()
    return b"\x79" + len(data).to_bytes(2, "big") + data
