"""The AWS account that a command works in: its region and the caller's identity."""

import difflib
import os
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from marless.coordinator.errors import UserError
from marless.infra.aws.clients import Cloud, configured_session
from marless.infra.aws.error_messages import code, explain

# Short time-outs for quick checks. Calls that do the work wait longer (`marless.infra.aws.clients`).
QUICK = {"retries": {"total_max_attempts": 1}, "connect_timeout": 2.0, "read_timeout": 4.0}
# STS API reference, "Common errors".
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")


@dataclass(frozen=True)
class Caller:
    """The identity of the credentials in use: account number and ARN."""

    account: str
    arn: str


def region_of(option: str | None) -> str:
    """Return the region asked for, or the configured region. Raises `UserError` if it is missing or unknown."""
    session = configured_session()
    try:
        # Other SDKs, and the AWS CLI from version 2 on, read AWS_REGION. botocore does not.
        region = option or os.environ.get("AWS_DEFAULT_REGION") or os.environ.get("AWS_REGION")
        region = region or session.get_config_variable("region")
        parts = session.get_available_partitions()
        regions = [name for part in parts for name in session.get_available_regions("lambda", part)]
    except BotoCoreError as error:
        raise UserError(f"cannot read the AWS configuration: {explain(error)}") from error
    if not region:
        raise UserError("no AWS region is chosen; pass --region, such as --region us-east-1, or set AWS_REGION")
    if region not in regions:
        nearest = difflib.get_close_matches(region, regions, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else "try us-east-1"
        raise UserError(f"{region!r} is not an AWS region with Lambda; {hint}")
    return region


def caller(cloud: Cloud) -> Caller:
    """Return the caller's identity as AWS reports it. Raises `UserError` with a remedy if it does not."""
    try:
        identity = cloud.client("sts", **QUICK).get_caller_identity()
    except (ClientError, BotoCoreError) as error:
        raise UserError(_no_caller(error)) from error
    return Caller(identity["Account"], identity["Arn"])


def _no_caller(error: Exception) -> str:
    if isinstance(error, NoCredentialsError):
        where = "aws configure, aws sso login, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return f"no AWS credentials were found; set them with {where}"
    if code(error) in _EXPIRED:
        return "the AWS credentials have expired; log in again"
    return f"AWS did not accept the credentials: {explain(error)}" if code(error) else explain(error)
