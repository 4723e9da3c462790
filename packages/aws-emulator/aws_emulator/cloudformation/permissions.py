"""The calls that CloudFormation makes in its caller's name for a resource. Pure.

They are the permissions in the handlers of each resource type's schema, as far as they depend on the resource. Calls
that only read or tag are left out. `iam:PassRole` is Lambda's own demand (Lambda developer guide, "Granting users
permissions to pass a role").
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Properties = Mapping[str, Any]


class Role(NamedTuple):
    """A role's ARN and the ARN of its permissions boundary, '' without one."""

    arn: str
    boundary: str


class Place(NamedTuple):
    """The location of a resource: the account's region and number, the resource's name in its service, the stack's
    roles."""

    region: str
    account: str
    name: str
    roles: Mapping[str, Role] = {}


class _Calls(NamedTuple):
    """`arns` gives the resources from place and properties. The actions are for their life, and for their
    properties."""

    arns: Callable[[Place, Properties], tuple[str, ...]]
    create: tuple[str, ...]
    update: tuple[str, ...]
    delete: tuple[str, ...]
    of_property: Mapping[str, str] = {}


class Call(NamedTuple):
    """An action on a resource, with its own context keys."""

    action: str
    resource: str
    context: Mapping[str, tuple[str, ...]] = {}


def creation(type_: str, place: Place, properties: Properties) -> Iterator[Call]:
    """The calls that create a resource."""
    calls = _CALLS[type_]
    extra = [action for name, action in calls.of_property.items() if name in properties]
    yield from _on(calls, (*calls.create, *extra), place, properties)
    yield from _calls_of_function(type_, properties)


def update(type_: str, place: Place, properties: Properties, before: Properties) -> Iterator[Call]:
    """Yield the calls that update a resource in place. `properties` has the new values."""
    calls = _CALLS[type_]
    extra = [action for name, action in calls.of_property.items() if properties.get(name) != before.get(name)]
    yield from _on(calls, (*calls.update, *extra), place, properties)
    yield from _calls_of_function(type_, properties)


def deletion(type_: str, place: Place, properties: Properties) -> Iterator[Call]:
    """The calls that delete a resource."""
    calls = _CALLS[type_]
    yield from _on(calls, calls.delete, place, properties)


def name_of(type_: str, properties: Properties, default: str) -> str:
    """The resource's name: its own, or `default`, a generated name or an id that ends in the name."""
    name = properties.get(_NAMES.get(type_, ""))
    if type_ == "AWS::Budgets::Budget":
        name = properties["Budget"]["BudgetName"]
    if type_ in _OF_FUNCTIONS:
        name = str(properties["FunctionName"]).partition(":function:")[2] or properties["FunctionName"]
        name = name.partition(":")[0]
    return str(name) if name else default.rpartition("/")[2].rpartition(":")[2]


def _on(calls: _Calls, actions: tuple[str, ...], place: Place, properties: Properties) -> Iterator[Call]:
    boundaries = {role.arn: role.boundary for role in place.roles.values()}
    for arn in calls.arns(place, properties):
        boundary = properties.get("PermissionsBoundary") or boundaries.get(arn)
        context = {"iam:permissionsboundary": (boundary,)} if boundary else {}
        for action in actions:
            yield Call(action, arn, context)


def _calls_of_function(type_: str, properties: Properties) -> Iterator[Call]:
    if type_ == "AWS::Lambda::Function":
        yield Call("iam:PassRole", properties["Role"], {"iam:passedtoservice": ("lambda.amazonaws.com",)})
        code = properties.get("Code", {})
        if "S3Key" in code:
            yield Call("s3:GetObject", f"arn:aws:s3:::{code['S3Bucket']}/{code['S3Key']}")


def _arn(pattern: str) -> Callable[[Place, Properties], tuple[str, ...]]:
    return lambda place, properties: (pattern.format(**place._asdict()),)


_FUNCTION = _arn("arn:aws:lambda:{region}:{account}:function:{name}")
_BUCKET = _arn("arn:aws:s3:::{name}")


def _policy_of(place: Place, properties: Properties) -> tuple[str, ...]:
    return (f"arn:aws:s3:::{properties['Bucket']}",)


def _role(place: Place, properties: Properties) -> tuple[str, ...]:
    return (f"arn:aws:iam::{place.account}:role{properties.get('Path', '/')}{place.name}",)


def _roles(place: Place, properties: Properties) -> tuple[str, ...]:
    elsewhere = f"arn:aws:iam::{place.account}:role/"
    return tuple(place.roles[name].arn if name in place.roles else elsewhere + name for name in properties["Roles"])


_NAMES = {
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
}
_OF_FUNCTIONS = frozenset(f"AWS::Lambda::{type_}" for type_ in ("Version", "Alias", "EventInvokeConfig", "Permission"))

_CALLS: Mapping[str, _Calls] = {
    "AWS::S3::Bucket": _Calls(
        _BUCKET,
        ("s3:CreateBucket",),
        (),
        ("s3:DeleteBucket",),
        {
            "BucketEncryption": "s3:PutEncryptionConfiguration",
            "PublicAccessBlockConfiguration": "s3:PutBucketPublicAccessBlock",
            "OwnershipControls": "s3:PutBucketOwnershipControls",
            "LifecycleConfiguration": "s3:PutLifecycleConfiguration",
        },
    ),
    "AWS::S3::BucketPolicy": _Calls(
        _policy_of, ("s3:PutBucketPolicy",), ("s3:PutBucketPolicy",), ("s3:DeleteBucketPolicy",)
    ),
    "AWS::DynamoDB::Table": _Calls(
        _arn("arn:aws:dynamodb:{region}:{account}:table/{name}"),
        ("dynamodb:CreateTable", "dynamodb:DescribeTable"),
        ("dynamodb:UpdateTable",),
        ("dynamodb:DeleteTable",),
        {
            "TimeToLiveSpecification": "dynamodb:UpdateTimeToLive",
            "PointInTimeRecoverySpecification": "dynamodb:UpdateContinuousBackups",
        },
    ),
    "AWS::SQS::Queue": _Calls(
        _arn("arn:aws:sqs:{region}:{account}:{name}"),
        ("sqs:CreateQueue", "sqs:GetQueueAttributes"),
        ("sqs:SetQueueAttributes",),
        ("sqs:DeleteQueue",),
    ),
    "AWS::Logs::LogGroup": _Calls(
        _arn("arn:aws:logs:{region}:{account}:log-group:{name}"),
        ("logs:CreateLogGroup",),
        ("logs:PutRetentionPolicy",),
        ("logs:DeleteLogGroup",),
        {"RetentionInDays": "logs:PutRetentionPolicy", "KmsKeyId": "logs:AssociateKmsKey"},
    ),
    "AWS::IAM::Role": _Calls(
        _role,
        ("iam:CreateRole",),
        ("iam:UpdateAssumeRolePolicy",),
        ("iam:DeleteRolePolicy", "iam:DeleteRole"),
        {"Policies": "iam:PutRolePolicy", "PermissionsBoundary": "iam:PutRolePermissionsBoundary"},
    ),
    "AWS::IAM::Policy": _Calls(_roles, ("iam:PutRolePolicy",), ("iam:PutRolePolicy",), ("iam:DeleteRolePolicy",)),
    "AWS::Lambda::Function": _Calls(
        _FUNCTION,
        ("lambda:CreateFunction",),
        ("lambda:UpdateFunctionCode", "lambda:UpdateFunctionConfiguration"),
        ("lambda:DeleteFunction",),
        {"ReservedConcurrentExecutions": "lambda:PutFunctionConcurrency"},
    ),
    "AWS::Lambda::Version": _Calls(_FUNCTION, ("lambda:PublishVersion",), (), ("lambda:DeleteFunction",)),
    "AWS::Lambda::Alias": _Calls(_FUNCTION, ("lambda:CreateAlias",), ("lambda:UpdateAlias",), ("lambda:DeleteAlias",)),
    "AWS::Lambda::EventInvokeConfig": _Calls(
        _FUNCTION,
        ("lambda:PutFunctionEventInvokeConfig",),
        ("lambda:PutFunctionEventInvokeConfig",),
        ("lambda:DeleteFunctionEventInvokeConfig",),
    ),
    "AWS::Lambda::Permission": _Calls(_FUNCTION, ("lambda:AddPermission",), (), ("lambda:RemovePermission",)),
    "AWS::Events::Rule": _Calls(
        _arn("arn:aws:events:{region}:{account}:rule/{name}"),
        ("events:PutRule", "events:PutTargets"),
        ("events:PutRule", "events:PutTargets"),
        ("events:RemoveTargets", "events:DeleteRule"),
    ),
    "AWS::CloudWatch::Alarm": _Calls(
        _arn("arn:aws:cloudwatch:{region}:{account}:alarm:{name}"),
        ("cloudwatch:PutMetricAlarm",),
        ("cloudwatch:PutMetricAlarm",),
        ("cloudwatch:DeleteAlarms",),
    ),
    "AWS::CloudWatch::Dashboard": _Calls(
        _arn("arn:aws:cloudwatch::{account}:dashboard/{name}"),
        ("cloudwatch:PutDashboard",),
        ("cloudwatch:PutDashboard",),
        ("cloudwatch:DeleteDashboards",),
    ),
    "AWS::SNS::Topic": _Calls(
        _arn("arn:aws:sns:{region}:{account}:{name}"),
        ("sns:CreateTopic",),
        ("sns:SetTopicAttributes",),
        ("sns:DeleteTopic",),
        {"Subscription": "sns:Subscribe", "KmsMasterKeyId": "sns:SetTopicAttributes"},
    ),
    "AWS::Budgets::Budget": _Calls(
        _arn("arn:aws:budgets::{account}:budget/{name}"),
        ("budgets:ModifyBudget",),
        ("budgets:ModifyBudget",),
        ("budgets:ModifyBudget",),
    ),
}
"""By resource type."""
