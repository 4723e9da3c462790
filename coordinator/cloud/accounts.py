"""The AWS account that a command would work in: its region, who calls, and how long looking may take."""

import difflib
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, NoCredentialsError
from botocore.session import get_session

from coordinator.errors import UserError
from infra.aws.clients import Cloud
from infra.aws.errors import code, explained

# For whom a look is to be quick; calls that do the work wait longer (`infra.aws.clients`).
LOOK = {"retries": {"total_max_attempts": 1}, "connect_timeout": 2.0, "read_timeout": 4.0}
# STS API reference, "Common errors".
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")


@dataclass(frozen=True)
class Caller:
    """Whose credentials are in use: the account's number, and who one is there (an ARN without secrets)."""

    account: str
    arn: str


def region_of(asked: str | None) -> str:
    """The region asked for, or that of the AWS configuration; raises `UserError` when there is none or no such."""
    session = get_session()
    try:
        region = asked or session.get_config_variable("region")
        parts = session.get_available_partitions()
        known = [name for part in parts for name in session.get_available_regions("lambda", part)]
    except BotoCoreError as error:
        raise UserError(f"cannot read the AWS configuration: {explained(error)}") from error
    if not region:
        raise UserError("no AWS region is chosen; give one, such as --region us-east-1, or set AWS_DEFAULT_REGION")
    if region not in known:
        nearest = difflib.get_close_matches(region, known, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else "one is us-east-1"
        raise UserError(f"{region!r} is not an AWS region with Lambda; {hint}")
    return region


def caller(cloud: Cloud) -> Caller:
    """Who AWS says we are; raises `UserError` with what to do where it does not say."""
    try:
        identity = cloud.client("sts", **LOOK).get_caller_identity()
    except (ClientError, BotoCoreError) as error:
        raise UserError(_no_caller(error)) from error
    return Caller(identity["Account"], identity["Arn"])


def _no_caller(error: Exception) -> str:
    if isinstance(error, NoCredentialsError):
        where = "aws configure, aws sso login, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return f"no AWS credentials were found; give some: {where}"
    if code(error) in _EXPIRED:
        return "the AWS credentials have expired; log in again"
    if isinstance(error, ConnectionError):
        return "AWS cannot be reached; check the network"
    return f"AWS does not say whose credentials these are: {explained(error)}"
