"""What the Lambda service answers instead of running a function, as its API model words it (API_Invoke, "Errors")."""

from collections.abc import Mapping


class Refused(Exception):
    """An error answer: HTTP status, the error's name (header x-amzn-ErrorType) and the body's members."""

    def __init__(self, status: int, code: str, body: Mapping[str, str]) -> None:
        self.message = body.get("message") or body["Message"]
        super().__init__(f"{code}: {self.message}")
        self.status = status
        self.code = code
        self.body = body


def throttled(reserved: bool) -> Refused:
    """No concurrency is left: the function's own reservation, or what functions without one share."""
    limit = "ReservedFunctionConcurrentInvocationLimitExceeded" if reserved else "ConcurrentInvocationLimitExceeded"
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
    """A fault of the service itself; asynchronous events are tried again."""
    return Refused(500, "ServiceException", {"Type": "Server", "Message": message})
