"""Turns AWS errors into one-line messages with advice."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectionError,
    CredentialRetrievalError,
    LoginError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
    ResponseStreamingError,
    SSOError,
    TokenRetrievalError,
)

from functions.contract import StorageFault

# Permissions that are not named after the call (Service Authorization Reference).
_ACTIONS = {
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "DeleteObjects": "s3:DeleteObject",
    "ListObjectsV2": "s3:ListBucket",
    "Invoke": "lambda:InvokeFunction",
}
_TABLE_CALLS = ("GetItem", "BatchGetItem", "PutItem", "UpdateItem", "DeleteItem", "Query")

_NOT_DEPLOYED = "it does not exist; deploy with `marless deploy`, or check the region and the tenant"
_EXPIRED = "the credentials have expired; log in again and go on with `marless resume`"
_UNKNOWN = "AWS does not accept these credentials; check which profile or access key is in use"
_NONE = "no usable credentials were found; log in, choose a profile, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_THROTTLED = "AWS turns requests away because there are too many; wait a minute and go on with `marless resume`"
_ELSEWHERE = "it is in another region; choose that region"
_CLOCK = "the clock of this machine is wrong; set it"
_AWS_FAULT = "AWS has a problem; try again later"
_UNREACHABLE = "cannot be reached; check the network, and if it is an emulated account, that it runs"
_BROKEN = "the connection broke; check the network and try again"

# Error codes of S3, DynamoDB, Lambda and STS (their API references, "Error responses" and "Common errors").
_ADVICE: Mapping[str, str] = {
    "NoSuchBucket": _NOT_DEPLOYED,
    "ResourceNotFoundException": _NOT_DEPLOYED,
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "RequestExpired": _EXPIRED,
    "InvalidAccessKeyId": _UNKNOWN,
    "InvalidClientTokenId": _UNKNOWN,
    "UnrecognizedClientException": _UNKNOWN,
    "InvalidToken": _UNKNOWN,
    "SignatureDoesNotMatch": _UNKNOWN,
    "InvalidSignatureException": _UNKNOWN,
    "IncompleteSignature": _UNKNOWN,
    "RequestTimeTooSkewed": _CLOCK,
    "SlowDown": _THROTTLED,
    "ProvisionedThroughputExceededException": _THROTTLED,
    "RequestLimitExceeded": _THROTTLED,
    "Throttling": _THROTTLED,
    "ThrottlingException": _THROTTLED,
    "TooManyRequestsException": _THROTTLED,
    "PermanentRedirect": _ELSEWHERE,
    "301": _ELSEWHERE,
    "AuthorizationHeaderMalformed": _ELSEWHERE,
    "IllegalLocationConstraintException": _ELSEWHERE,
    "KeyTooLongError": "the name of the object is too long; choose a shorter name for the run",
    "EntityTooLarge": "the object is larger than S3 takes at once",
}
_FORBIDDEN = ("AccessDenied", "AccessDeniedException", "403", "Forbidden")
_LOGIN = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    SSOError,
    LoginError,
)
_CUT_OFF = (ConnectionClosedError, ReadTimeoutError, ResponseStreamingError)


@contextmanager
def storage_errors(doing: str, where: str) -> Iterator[None]:
    """Turns AWS errors into a one-line `StorageFault`: cannot `doing` `where`, the reason and the advice."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise StorageFault(f"cannot {doing} {where}: {explain(error)}") from error


def code(error: Exception) -> str:
    """AWS's error code, '' if the error is not a response of AWS."""
    return str(error.response["Error"].get("Code", "")) if isinstance(error, ClientError) else ""


def explain(error: Exception) -> str:
    """The reason and the advice in one line."""
    return " ".join((_answered(error) if isinstance(error, ClientError) else _unanswered(error)).split())


def _answered(error: ClientError) -> str:
    """Explains an error response of AWS."""
    name = code(error)
    if name in _FORBIDDEN:
        call = error.operation_name
        action = f"dynamodb:{call}" if call in _TABLE_CALLS else _ACTIONS.get(call, call)
        return f"access denied: the credentials in use lack the permission {action} there"
    message = error.response["Error"].get("Message", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    advice = _ADVICE.get(name, _AWS_FAULT if status >= 500 else "")
    if advice in (_NOT_DEPLOYED, _EXPIRED, _ELSEWHERE):
        return advice
    return f"{name}: {message}; {advice}" if advice else f"{name}: {message}"


def _unanswered(error: Exception) -> str:
    """Explains an error without a response of AWS."""
    if isinstance(error, NoRegionError):
        return "no region is set; choose one, or set AWS_DEFAULT_REGION"
    if isinstance(error, ProfileNotFound):
        return f"{error}; choose another profile"
    if isinstance(error, _LOGIN):
        return f"{_NONE} ({error})"
    if isinstance(error, ConnectionError):
        return f"{getattr(error, 'kwargs', {}).get('endpoint_url', 'the endpoint')} {_UNREACHABLE}"
    if isinstance(error, _CUT_OFF):
        return f"{_BROKEN} ({error})"
    return f"{type(error).__name__}: {error}"
