"""The service actions of management requests: requests of the program when it deploys and tears down. Pure.

Sources: Service Authorization Reference and the API references of each service.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl

from aws_emulator.encoding import from_json
from aws_emulator.iam.policies import ServiceAction
from aws_emulator.wsgi import Environ, body


class _Known(NamedTuple):
    """An operation's action and its resource, a pattern of the request's fields."""

    action: str
    resource: str = "*"


_STACK = "arn:aws:cloudformation:{region}:{account}:stack/{StackName}/*"
_TRANSFORM = "arn:aws:cloudformation:{region}:aws:transform/Serverless-2016-10-31"
_REPOSITORY = "arn:aws:ecr:{region}:{account}:repository/{repositoryName}"
# By the service that signs, then by operation.
_OPERATIONS: Mapping[str, Mapping[str, tuple[_Known, ...]]] = {
    "cloudformation": {
        **{
            name: (
                _Known(f"cloudformation:{name}", _STACK),
                _Known("cloudformation:CreateChangeSet", _TRANSFORM),
                _Known("cloudformation:TagResource", _STACK),
            )
            for name in ("CreateStack", "UpdateStack")
        },
        **{
            name: (_Known(f"cloudformation:{name}", _STACK),)
            for name in (
                "DeleteStack",
                "DescribeStackEvents",
                "DescribeStacks",
                "ListStackResources",
                "UpdateTerminationProtection",
                "DescribeChangeSet",
                "ExecuteChangeSet",
                "DeleteChangeSet",
            )
        },
        "CreateChangeSet": (
            _Known("cloudformation:CreateChangeSet", _STACK),
            _Known("cloudformation:CreateChangeSet", _TRANSFORM),
            _Known("cloudformation:TagResource", _STACK),
        ),
        "ListStacks": (_Known("cloudformation:ListStacks"),),
    },
    "iam": {"ListRoles": (_Known("iam:ListRoles"),)},
    "ssm": {
        name: (_Known(f"ssm:{name}", "arn:aws:ssm:{region}:{account}:parameter{Name}"),)
        for name in ("DeleteParameter", "GetParameter", "PutParameter")
    },
    "sns": {"ListTopics": (_Known("sns:ListTopics"),)},
    "events": {"ListRules": (_Known("events:ListRules"),)},
    "monitoring": {
        "DescribeAlarms": (_Known("cloudwatch:DescribeAlarms"),),
        "ListDashboards": (_Known("cloudwatch:ListDashboards"),),
    },
    "budgets": {"DescribeBudgets": (_Known("budgets:ViewBudget"),)},
    "ecr": {
        "DescribeRepositories": (_Known("ecr:DescribeRepositories"),),
        **{
            name: (_Known(f"ecr:{name}", _REPOSITORY),)
            for name in ("BatchDeleteImage", "DeleteRepository", "DescribeImages")
        },
    },
}
_LAMBDA = "/2015-03-31/functions"
_OF_FUNCTION = re.compile(rf"{_LAMBDA}/(?:arn:aws:lambda:[a-z0-9-]+:\d{{12}}:function:)?([\w-]{{1,64}})(/[va]\w+)?")
_READS = {None: "GetFunction", "/versions": "ListVersionsByFunction", "/aliases": "ListAliases"}


def management_actions(environ: Environ, service: str, region: str, account: str) -> list[ServiceAction] | None:
    """The actions of a known management request to a service with one URL, or None."""
    operation, fields = _operation_and_fields(environ)
    patterns = _OPERATIONS.get(service, {}).get(operation)
    if patterns is None:
        return None
    place = {"region": region, "account": account}
    # A stack may be named by its ARN.
    stack = str(fields.get("StackName", "*"))
    actions = []
    for action, pattern in patterns:
        arn_pattern = stack if stack.startswith("arn:") and "{StackName}" in pattern else pattern
        actions.append(ServiceAction(action, arn_pattern.format(**{**_texts(fields), **place, "StackName": stack})))
    if "RoleARN" in fields:
        pass_role_context = {"iam:passedtoservice": ("cloudformation.amazonaws.com",)}
        actions.append(ServiceAction("iam:PassRole", str(fields["RoleARN"]), pass_role_context))
    return actions


def function_actions(environ: Environ, region: str, account: str) -> list[ServiceAction] | None:
    """The actions of a request about functions themselves."""
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    if method == "GET" and path.rstrip("/") == _LAMBDA:
        return [ServiceAction("lambda:ListFunctions", "*")]
    match = _OF_FUNCTION.fullmatch(path)
    if match is None or match[2] not in _READS:
        return None
    arn = f"arn:aws:lambda:{region}:{account}:function:{match[1]}"
    (qualifier,) = parse_qs(environ.get("QUERY_STRING", "")).get("Qualifier", [""])
    qualified = f"{arn}:{qualifier}" if qualifier else arn
    if method == "GET":
        return [ServiceAction(f"lambda:{_READS[match[2]]}", qualified)]
    if method == "DELETE" and not match[2]:
        return [ServiceAction("lambda:DeleteFunction", qualified)]
    return None


def bucket_actions(method: str, arn: str, parameters: Mapping[str, str]) -> list[ServiceAction] | None:
    """The actions of a request that makes, sets up or deletes a bucket. `parameters` is its query."""
    kinds = parameters.keys() - {"x-id"}
    kind = next(iter(kinds), "")
    action = _ON_BUCKET.get((method, kind)) if len(kinds) <= 1 else None
    return [ServiceAction(f"s3:{action}", arn)] if action else None


_ON_BUCKET = {
    ("PUT", ""): "CreateBucket",
    ("DELETE", ""): "DeleteBucket",
    ("PUT", "publicAccessBlock"): "PutBucketPublicAccessBlock",
    ("PUT", "policy"): "PutBucketPolicy",
    ("GET", "versioning"): "GetBucketVersioning",
}


def _operation_and_fields(environ: Environ) -> tuple[str, Mapping[str, Any]]:
    """The operation and its fields, from the query protocol or the JSON protocol. '' for another form."""
    if environ["REQUEST_METHOD"] != "POST" or environ["PATH_INFO"] != "/" or environ.get("QUERY_STRING"):
        return "", {}
    text, kind = body(environ), str(environ.get("CONTENT_TYPE", ""))
    if kind.startswith("application/x-www-form-urlencoded") and "HTTP_X_AMZ_TARGET" not in environ:
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True)
        fields = dict(pairs)
        return (fields.get("Action", ""), fields) if len(fields) == len(pairs) else ("", {})
    if kind.startswith("application/x-amz-json-1.") and b"Action=" not in text:
        try:
            json_fields = from_json(text or b"{}", Any)
        except ValueError:
            return "", {}
        return environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2], json_fields if isinstance(
            json_fields, dict
        ) else {}
    return "", {}


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if isinstance(value, str)}
