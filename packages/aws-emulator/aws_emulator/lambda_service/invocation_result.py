"""Results of invocations and refusals by the service, with Lambda's error documents.

Source: AWS documentation, "Troubleshoot invocation issues in Lambda".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from aws_emulator.encoding import Undecodable, from_json, to_json
from aws_emulator.lambda_service import platform_log
from aws_emulator.lambda_service.platform_log import ErrorStatus


class _Error(msgspec.Struct, rename="camel"):
    error_type: str = "Runtime.Unknown"


@dataclass(frozen=True)
class InvocationResult:
    """The answer's payload and whether it is an error. It has the platform's reason and log lines if the platform ended
    the call."""

    payload: bytes
    is_error: bool = False
    error_status: ErrorStatus | None = None
    log: tuple[str, ...] = ()


def timed_out(request_id: str, timeout_s: float) -> InvocationResult:
    message = f"Task timed out after {timeout_s:.2f} seconds"
    line = platform_log.timed_out(request_id, timeout_s)
    return _failure("timeout", "Sandbox.Timedout", f"RequestId: {request_id} Error: {message}", (line,))


def process_exit(request_id: str, how: str, out_of_memory: bool = False) -> InvocationResult:
    """The process ended. Where it was out of memory, only the REPORT line says so."""
    message = f"RequestId: {request_id} Error: {how}"
    result = _failure("error", "Runtime.ExitError", message, (message, "Runtime.ExitError"))
    status = ErrorStatus("error", "Runtime.OutOfMemory") if out_of_memory else result.error_status
    return replace(result, error_status=status)


def init_failed(body: bytes) -> InvocationResult:
    """`body` is the error document that the runtime sent."""
    try:
        error_type = from_json(body, _Error).error_type
    except Undecodable:
        error_type = "Runtime.Unknown"
    return InvocationResult(body, is_error=True, error_status=ErrorStatus("error", error_type))


def oversize(limit: int) -> InvocationResult:
    message = f"Response payload size exceeded maximum allowed payload size ({limit} bytes)."
    return _failure("error", "Function.ResponseSizeTooLarge", message)


def _failure(
    status: Literal["timeout", "error"], error_type: str, message: str, log: tuple[str, ...] = ()
) -> InvocationResult:
    payload = to_json({"errorType": error_type, "errorMessage": message})
    return InvocationResult(payload, is_error=True, error_status=ErrorStatus(status, error_type), log=log)


class Refused(Exception):
    """An error answer: HTTP status, error name (header x-amzn-ErrorType) and the body's members."""

    def __init__(self, status: int, code: str, body: Mapping[str, str]) -> None:
        self.message = body.get("message") or body["Message"]
        super().__init__(f"{code}: {self.message}")
        self.status = status
        self.code = code
        self.body = body


def throttle(of_function: bool) -> Refused:
    """The concurrency is used up: the function's own reservation, or the account's unreserved concurrency."""
    limit = "ReservedFunctionConcurrentInvocationLimitExceeded" if of_function else "ConcurrentInvocationLimitExceeded"
    return Refused(429, "TooManyRequestsException", {"Reason": limit, "Type": "User", "message": "Rate Exceeded."})


def not_found(message: str) -> Refused:
    return Refused(404, "ResourceNotFoundException", {"Type": "User", "Message": message})


def invalid(message: str) -> Refused:
    return Refused(400, "InvalidParameterValueException", {"Type": "User", "message": message})


def not_json(why: str) -> Refused:
    message = f"Could not parse request body into json: Could not parse payload into json: {why}"
    return Refused(400, "InvalidRequestContentException", {"Type": "User", "message": message})


def too_large(length: int, limit: int, kind: str) -> Refused:
    message = f"{length} byte payload is too large for the {kind} invocation type (limit {limit} bytes)"
    return Refused(413, "RequestEntityTooLargeException", {"Type": "User", "message": message})


def recursive() -> Refused:
    message = (
        "Lambda has detected your function being invoked in a recursive loop with other Amazon Web Services resources "
        "and stopped your function's invocation."
    )
    return Refused(400, "RecursiveInvocationException", {"Type": "User", "Message": message})


def unavailable(message: str) -> Refused:
    """A fault of the service itself. Asynchronous events are retried."""
    return Refused(500, "ServiceException", {"Type": "Server", "Message": message})
