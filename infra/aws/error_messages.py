"""Turns AWS errors into one-line messages with advice."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from json import JSONDecodeError

from botocore import exceptions

from marless.functions.errors import StorageFault

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

_NOT_DEPLOYED = "it does not exist; deploy with `marless cloud deploy`, or check the region and the tenant"
_EXPIRED = "the credentials have expired; log in again and go on with `marless resume`"
_UNKNOWN = "AWS does not accept these credentials; check which profile or access key is in use"
_NONE = "no usable credentials were found; log in, choose a profile, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_THROTTLED = "AWS turns requests away because there are too many; wait a minute and go on with `marless resume`"
_ELSEWHERE = "it is in another region; choose that region"
_UNTRUSTED = (
    "its certificate is not trusted; where a proxy opens TLS, set AWS_CA_BUNDLE, or ca_bundle in the AWS"
    " configuration, to the proxy's certificate"
)
_UNSENDABLE = "holds a line break or another sign that cannot be sent; set it again"
_CLOCK = "the clock of this machine is wrong; set it"
_AWS_FAULT = "AWS has a problem; try again later"
_UNREACHABLE = "cannot be reached; check the network, and if it is an emulated account, that it runs"
_BROKEN = "the connection broke; check the network and try again"
# Settings that botocore refuses: the variable, and the key in the AWS configuration.
_SETTINGS = {
    "InvalidSTSRegionalEndpointsConfigError": "AWS_STS_REGIONAL_ENDPOINTS (sts_regional_endpoints)",
    "InvalidDefaultsMode": "AWS_DEFAULTS_MODE (defaults_mode)",
    "InvalidRetryModeError": "AWS_RETRY_MODE (retry_mode)",
    "InvalidMaxRetryAttemptsError": "AWS_MAX_ATTEMPTS (max_attempts)",
    "InvalidProxiesConfigError": "HTTPS_PROXY, HTTP_PROXY or the proxy's certificates",
    "InvalidIMDSEndpointError": "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "InvalidIMDSEndpointModeError": "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
}
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")

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
_SIGNATURES = ("SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature")
_FORBIDDEN = ("AccessDenied", "AccessDeniedException", "403", "Forbidden")
_LOGIN = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.TokenRetrievalError,
    exceptions.SSOError,
    exceptions.LoginError,
)
_CUT_OFF = (exceptions.ConnectionClosedError, exceptions.ReadTimeoutError, exceptions.ResponseStreamingError)


class Unusable(exceptions.BotoCoreError):  # type: ignore[misc]  # published without type information
    """An error of another library that botocore does not wrap. The text names the cause and the remedy."""

    fmt = "{problem}"


@contextmanager
def named_causes() -> Iterator[None]:
    """Turn other libraries' errors into `Unusable`, while the SDK reads the user's AWS configuration."""
    try:
        yield
    except (exceptions.BotoCoreError, exceptions.ClientError):
        raise
    except Exception as error:
        raise Unusable(problem=_cause(error)) from error


def _cause(error: Exception) -> str:
    """Of a process or a file with credentials, of a question for a code of MFA, of an address."""
    if isinstance(error, JSONDecodeError):
        return "the credential_process of the AWS profile prints no JSON; run it by hand to see what it says"
    if isinstance(error, OSError) and error.filename:
        subject = "AWS credentials (credential_process, web_identity_token_file) need"
        return f"{subject} {os.fsdecode(error.filename)}: {error.strerror}"
    if isinstance(error, EOFError):
        return "the AWS profile asks for a code (mfa_serial), and there is no terminal to enter one; log in beforehand"
    if "endpoint" in str(error):
        return f"the address of AWS (AWS_ENDPOINT_URL, endpoint_url) is invalid: {error}; one begins with https:// or http://"
    return f"the AWS configuration cannot be used: {type(error).__name__}: {error}"


@contextmanager
def storage_errors(doing: str, where: str) -> Iterator[None]:
    """Turns AWS errors into a one-line `StorageFault`: cannot `doing` `where`, the reason and the advice."""
    try:
        yield
    except (exceptions.ClientError, exceptions.BotoCoreError) as error:
        raise StorageFault(f"cannot {doing} {where}: {explain(error)}") from error


def code(error: Exception) -> str:
    """AWS's error code, '' if the error is not a response of AWS."""
    return str(error.response["Error"].get("Code", "")) if isinstance(error, exceptions.ClientError) else ""


def explain(error: Exception) -> str:
    """The reason and the advice in one line."""
    return " ".join(
        (_response_text(error) if isinstance(error, exceptions.ClientError) else _client_fault_text(error)).split()
    )


def _response_text(error: exceptions.ClientError) -> str:
    if (name := code(error)) in _FORBIDDEN:
        call = error.operation_name
        action = f"dynamodb:{call}" if call in _TABLE_CALLS else _ACTIONS.get(call, call)
        return f"access denied: the credentials in use lack the permission {action} there"
    message = error.response["Error"].get("Message", "")
    if re.search(r"not yet current|[Ss]ignature expired", message):
        return f"{name}: {message}; {_CLOCK}"
    if name in _SIGNATURES and (odd := _unsendable()):
        return f"{name}: {odd} {_UNSENDABLE}"
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    advice = _ADVICE.get(name, _AWS_FAULT if status >= 500 else "")
    if advice in (_NOT_DEPLOYED, _EXPIRED, _ELSEWHERE):
        return advice
    return f"{name}: {message}; {advice}" if advice else f"{name}: {message}"


def _client_fault_text(error: Exception) -> str:
    if isinstance(error, Unusable):
        return str(error)
    if isinstance(error, exceptions.NoRegionError):
        return "no region is set; choose one, or set AWS_DEFAULT_REGION"
    if isinstance(error, (exceptions.ProfileNotFound, exceptions.ConfigParseError)):
        is_unknown = isinstance(error, exceptions.ProfileNotFound)
        return f"{error}; {'choose another profile' if is_unknown else 'mend that file'}"
    if setting := _SETTINGS.get(type(error).__name__):
        return f"{setting} has an invalid value: {error}"
    if isinstance(error, _LOGIN):
        return f"{_NONE} ({error})"
    if isinstance(error, (exceptions.ConnectionError, exceptions.HTTPClientError)):
        return _connection_text(error)
    return f"{type(error).__name__}: {error}"


def _connection_text(error: Exception) -> str:
    arguments = getattr(error, "kwargs", {})
    where, why = arguments.get("endpoint_url", "the endpoint"), str(arguments.get("error", ""))
    bundle = os.environ.get("AWS_CA_BUNDLE", "")
    if "CA certificate bundle" in why or (bundle and not os.access(bundle, os.R_OK)):
        return (
            f"the certificates of AWS_CA_BUNDLE, or ca_bundle in the AWS configuration, cannot be read: {bundle or why}"
        )
    if isinstance(error, exceptions.SSLError):
        return f"{where}: {_UNTRUSTED if 'CERTIFICATE_VERIFY_FAILED' in why else 'TLS failed'} ({_reason(why)})"
    if isinstance(error, exceptions.ProxyConnectionError):
        return f"the proxy {arguments.get('proxy_url')} (HTTPS_PROXY, HTTP_PROXY) cannot be reached ({_reason(why)})"
    if "Invalid header value" in why:
        return f"{_unsendable() or 'a key among the AWS credentials'} {_UNSENDABLE}"
    if isinstance(error, exceptions.ConnectionError):
        return f"{where} {_UNREACHABLE}" + (f" ({_reason(why)})" if "[Errno" in why else "")
    return f"{_BROKEN} ({error})" if isinstance(error, _CUT_OFF) else f"{_BROKEN} ({_reason(why)})"


def _reason(text: str) -> str:
    innermost = re.findall(r"(?:\[Errno -?\d+\] |\[SSL: \w+\] )([^(')\"]+)", text)
    return innermost[-1].strip() if innermost else text


def _unsendable() -> str:
    """The variable among the credentials with a sign that no header of a request may hold, or blanks at its end."""
    values = {name: os.environ.get(name, "") for name in _KEYS}
    return next((name for name, value in values.items() if not value.isprintable() or value != value.strip()), "")
