"""The service actions of a request to AWS: the actions on resources that policies must allow. Pure.

A request that does not exactly have a known form is refused. This must be strict, because the service that answers the
authorized request must interpret it as the same actions.

Sources: Service Authorization Reference (actions, resources, condition keys of each service) and the API references.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl

from aws_emulator.encoding import from_json
from aws_emulator.iam.dynamodb_actions import dynamodb_actions
from aws_emulator.iam.management_actions import function_actions, management_actions
from aws_emulator.iam.policies import ServiceAction
from aws_emulator.iam.s3_actions import s3_actions
from aws_emulator.wsgi import Environ, body

_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w{1,128})/\d{8}/(?P<region>[a-z0-9-]+)/(?P<service>[a-z0-9-]+)/aws4_request,"
)
_INVOCATION = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")
_ACCOUNT_SETTINGS = "/2016-08-19/account-settings"
_FUNCTION = re.compile(
    r"(?:(?:arn:aws:lambda:(?P<region>[a-z0-9-]+):)?(?P<account>\d{12}):function:)?"
    r"(?P<name>[\w-]{1,64})(?::(?P<qualifier>[\w$-]{1,128}))?"
)
_LOG_GROUP = re.compile(r"[\w./#-]{1,512}")
_LOG_STREAM = re.compile(r"[^:*]{1,512}")
_QUEUE_URL = re.compile(r"https?://[^/?#]+/(\d{12})/([\w.-]{1,80})")
_TARGETS = {"dynamodb": "DynamoDB_20120810", "logs": "Logs_20140328", "sqs": "AmazonSQS"}

_STREAM_ACTIONS = ("CreateLogStream", "DeleteLogStream", "GetLogEvents", "PutLogEvents")
_GROUP_ACTIONS = ("CreateLogGroup", "DeleteLogGroup", "DescribeLogStreams", "FilterLogEvents", "PutRetentionPolicy")
_QUEUE_ACTIONS = {
    "SendMessage": "SendMessage",
    "SendMessageBatch": "SendMessage",
    "ReceiveMessage": "ReceiveMessage",
    "DeleteMessage": "DeleteMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "GetQueueAttributes": "GetQueueAttributes",
    "PurgeQueue": "PurgeQueue",
    "DeleteQueue": "DeleteQueue",
}


class Signer(NamedTuple):
    """A signature's access key and its region and service (AWS Signature Version 4)."""

    key: str
    region: str
    service: str


class Account(NamedTuple):
    """The emulated account: its number, and the names of its tables' partition keys."""

    number: str
    partition_keys: Mapping[str, str] = {}


def signer(environ: Environ) -> Signer | None:
    """The signer in the Authorization header, or None, for example for a presigned URL."""
    match = _SIGNED.match(environ.get("HTTP_AUTHORIZATION", ""))
    return Signer(match["key"], match["region"], match["service"]) if match else None


def service_actions(environ: Environ, by: Signer, account: Account) -> list[ServiceAction] | None:
    """All service actions of a request. Empty if every caller is allowed, None if they are unknown."""
    match by.service:
        case "s3":
            return s3_actions(environ)
        case "lambda":
            return _of_lambda(environ, by.region, account.number)
        case "sts":
            return _of_sts(environ)
        case "dynamodb" | "logs" | "sqs":
            return _of_json_service(environ, by, account)
    return management_actions(environ, by.service, by.region, account.number)


def _of_json_service(environ: Environ, by: Signer, account: Account) -> list[ServiceAction] | None:
    """The actions for services with one URL: the operation is in a header, the resource in the JSON body."""
    prefix, _, operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")
    text = body(environ)
    if prefix != _TARGETS[by.service] or not _is_call(environ, "application/x-amz-json-1.") or _names_action(text):
        return None
    if by.service == "dynamodb":
        table = f"arn:aws:dynamodb:{by.region}:{account.number}:table/"
        return dynamodb_actions(operation, text, table, account.partition_keys)
    try:
        fields = from_json(text, Any)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    if by.service == "logs":
        return _of_logs(operation, fields, f"arn:aws:logs:{by.region}:{account.number}:log-group:")
    return _of_sqs(operation, fields, by.region)


def _of_logs(operation: str, fields: Mapping[str, Any], groups: str) -> list[ServiceAction] | None:
    group, stream = str(fields.get("logGroupName", "")), str(fields.get("logStreamName", ""))
    if operation == "DescribeLogGroups":
        return [ServiceAction("logs:DescribeLogGroups", f"{groups}*")]
    if "logGroupIdentifier" in fields or not _LOG_GROUP.fullmatch(group):
        return None
    if operation in _STREAM_ACTIONS and _LOG_STREAM.fullmatch(stream):
        return [ServiceAction(f"logs:{operation}", f"{groups}{group}:log-stream:{stream}")]
    return [ServiceAction(f"logs:{operation}", f"{groups}{group}:*")] if operation in _GROUP_ACTIONS else None


def _of_sqs(operation: str, fields: Mapping[str, Any], region: str) -> list[ServiceAction] | None:
    if operation == "ListQueues":
        return [ServiceAction("sqs:ListQueues", "*")]
    queue = _QUEUE_URL.fullmatch(str(fields.get("QueueUrl", "")))
    if queue is None or operation not in _QUEUE_ACTIONS:
        return None
    return [ServiceAction(f"sqs:{_QUEUE_ACTIONS[operation]}", f"arn:aws:sqs:{region}:{queue[1]}:{queue[2]}")]


def _of_lambda(environ: Environ, region: str, account: str) -> list[ServiceAction] | None:
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    if method == "GET" and path == _ACCOUNT_SETTINGS:
        return [ServiceAction("lambda:GetAccountSettings", "*")]
    invocation = _INVOCATION.fullmatch(path)
    if method != "POST" or invocation is None:
        return function_actions(environ, region, account)
    function = _FUNCTION.fullmatch(invocation[1])
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    qualifiers = query.pop("Qualifier", [])
    if function is None or query or len(qualifiers) > 1 or (qualifiers and function["qualifier"]):
        return None
    qualifier = function["qualifier"] or (qualifiers[0] if qualifiers else "")
    arn = f"arn:aws:lambda:{function['region'] or region}:{function['account'] or account}:function:{function['name']}"
    return [ServiceAction("lambda:InvokeFunction", f"{arn}:{qualifier}" if qualifier else arn)]


def _of_sts(environ: Environ) -> list[ServiceAction] | None:
    if not _is_call(environ, "application/x-www-form-urlencoded"):
        return None
    fields = parse_qs(body(environ).decode("latin-1"))
    match fields.get("Action"):
        case ["GetCallerIdentity"]:
            return []
        case ["AssumeRole"] if len(fields.get("RoleArn", [])) == 1:
            return [ServiceAction("sts:AssumeRole", fields["RoleArn"][0])]
    return None


def _is_call(environ: Environ, kind: str) -> bool:
    """Return whether it is a call to a service with one URL, with a body of the content type `kind`."""
    return (
        environ["REQUEST_METHOD"] == "POST"
        and environ["PATH_INFO"] == "/"
        and not environ.get("QUERY_STRING")
        and environ.get("CONTENT_TYPE", "").startswith(kind)
        and "HTTP_CONTENT_ENCODING" not in environ
    )


def _names_action(text: bytes) -> bool:
    """Return whether a body names an action in form encoding, which moto prefers to the header even if JSON is
    declared."""
    return b"&" in text and any(name == b"Action" for name, _ in parse_qsl(text, keep_blank_values=True))
