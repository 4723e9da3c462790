"""The prerequisites of functions and rules in a stack's other resources and in their packages. Pure.

Lambda itself refuses a function if it cannot assume the role, or the role cannot send dead letters. AWS creates all
other functions. Then they may write no log, fail at the import, or miss their schedule. An emulated account refuses all
of it, because nothing else in it depends on these settings.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aws_emulator.cloudformation.resources.kind import Properties
from aws_emulator.cloudformation.stack import Resource
from aws_emulator.iam.conditions import Context, action_like, arn_like
from aws_emulator.iam.policies import Policy, ServiceAction, judge, read

_LAMBDA, _EVENTS = "lambda.amazonaws.com", "events.amazonaws.com"
# API_CreateFunction, Architectures.
_USUAL_ARCHITECTURE = "x86_64"


@dataclass(frozen=True)
class Packages:
    """The runtime and the architecture that functions' packages were built for, in Lambda's names. '' is unknown."""

    runtime: str = ""
    architecture: str = ""


class Unmet(NamedTuple):
    """A resource and the reason why it cannot work."""

    resource: Resource
    reason: str


@dataclass(frozen=True)
class _Role:
    trust: Policy
    policies: tuple[Policy, ...]
    context: Context


def unmet(stack: Collection[Resource], others: Iterable[Resource], packages: Packages) -> Iterator[Unmet]:
    """Yield the functions and rules of a stack with unmet prerequisites. `others` are resources of other stacks."""
    roles = _roles([*others, *stack])
    permissions = [resource.properties for resource in stack if resource.type == "AWS::Lambda::Permission"]
    for resource in stack:
        reasons: Iterable[str] = ()
        if resource.type == "AWS::Lambda::Function":
            reasons = (*_of_packages(resource.properties, packages), *_of_role(resource, roles))
        elif resource.type == "AWS::Events::Rule":
            reasons = _of_rule(resource, permissions)
        yield from (Unmet(resource, reason) for reason in reasons)


def _of_packages(properties: Properties, packages: Packages) -> Iterator[str]:
    """An image brings its own runtime."""
    runtime = properties.get("Runtime")
    if packages.runtime and runtime and runtime != packages.runtime:
        yield f"Runtime is {runtime}, and the packages are built for {packages.runtime}"
    [architecture] = properties.get("Architectures", [_USUAL_ARCHITECTURE])
    if packages.architecture and architecture != packages.architecture:
        yield f"Architectures is {architecture}, and the packages are built for {packages.architecture}"


def _of_role(function: Resource, roles: Mapping[str, _Role]) -> Iterator[str]:
    """Source: Lambda developer guide, "Defining Lambda function permissions with an execution role". The messages about
    trust and dead letters are CreateFunction's."""
    arn = function.properties["Role"]
    role = roles.get(arn)
    if role is None:
        yield f"The role defined for the function cannot be assumed by Lambda: no stack has made {arn}"
        return
    why = _denial([role.trust], ServiceAction("sts:AssumeRole", arn), role.context, _LAMBDA)
    if why is not None:
        yield f"The role defined for the function cannot be assumed by Lambda: {arn} does not trust {_LAMBDA}{why}"
    function_arn = function.physical.attributes["Arn"]
    region, account = function_arn.split(":")[3:5]
    group = function.properties.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{function.physical.id}")
    stream = f"arn:aws:logs:{region}:{account}:log-group:{group}:log-stream:new"
    # Lambda adds this key when it stores a log. It does not when it sends a dead letter ("Using source function ARN to
    # control function access behavior").
    logging = {**role.context, "lambda:sourcefunctionarn": (function_arn,)}
    for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
        why = _denial(role.policies, ServiceAction(action, stream), logging)
        if why is not None:
            yield f"its log would be lost: {arn} lacks {action} on log group {group}{why}"
    # "Giving Lambda functions access to resources in an Amazon VPC".
    action = "ec2:CreateNetworkInterface"
    if (
        function.properties.get("VpcConfig")
        and _denial(role.policies, ServiceAction(action, "*"), role.context) is not None
    ):
        message = "The provided execution role does not have permissions to call CreateNetworkInterface on EC2"
        yield f"{message}: {arn}"
    queue = function.properties.get("DeadLetterConfig", {}).get("TargetArn")
    why = _denial(role.policies, ServiceAction("sqs:SendMessage", queue), role.context) if queue else None
    if why is not None:
        message = "The provided execution role does not have permissions to call SendMessage on SQS"
        yield f"{message}: {arn} on {queue}{why}"


def _of_rule(rule: Resource, permissions: Iterable[Properties]) -> Iterator[str]:
    """EventBridge user guide, "Using resource-based policies for Amazon EventBridge"."""
    mine = [
        _function(permission["FunctionName"])
        for permission in permissions
        if permission["Principal"] == _EVENTS
        and action_like(permission["Action"], "lambda:InvokeFunction")
        and arn_like(permission.get("SourceArn", "*"), rule.physical.attributes["Arn"], {})
    ]
    for target in rule.properties.get("Targets", []):
        if _function(target["Arn"]) not in mine:
            yield f"no AWS::Lambda::Permission lets {_EVENTS} call the target {target['Arn']} for this rule"


def _denial(policies: Iterable[Policy], action: ServiceAction, context: Context, *callers: str) -> str | None:
    """None if the policies allow the action. Otherwise the reason as the end of a sentence, '' if it is implicit."""
    verdict = judge(policies, action, context, callers)
    return None if verdict.decision == "allow" else f" {verdict.why}".rstrip()


def _function(name: str) -> str:
    """A function's name with its qualifier, if any, of a name or an ARN."""
    return name.rpartition(":function:")[2]


def _roles(resources: Collection[Resource]) -> dict[str, _Role]:
    """The roles by ARN, each with its own policies and attached policies."""
    attached_policies: dict[str, list[Policy]] = {}
    for resource in resources:
        if resource.type == "AWS::IAM::Policy":
            for name in resource.properties["Roles"]:
                attached_policies.setdefault(name, []).append(read(resource.properties["PolicyDocument"]))
    role_by_arn = {}
    for resource in resources:
        if resource.type == "AWS::IAM::Role":
            arn, properties = resource.physical.attributes["Arn"], resource.properties
            inline_policies = [read(policy["PolicyDocument"]) for policy in properties.get("Policies", [])]
            context = {"aws:principalarn": (arn,), "aws:securetransport": ("true",)}
            policies = (*inline_policies, *attached_policies.get(resource.physical.id, ()))
            role_by_arn[arn] = _Role(_services(properties["AssumeRolePolicyDocument"], arn), policies, context)
    return role_by_arn


def _services(trust: Mapping[str, Any], role: str) -> Policy:
    """The part of a trust policy that is about services, with these as the callers."""
    statement_or_list = trust["Statement"]
    statements = statement_or_list if isinstance(statement_or_list, list) else [statement_or_list]
    about = [
        {**statement, "Principal": {"AWS": statement["Principal"]["Service"]}, "Resource": role}
        for statement in statements
        if "Service" in statement.get("Principal", "")
    ]
    return read({**trust, "Statement": about}, of_resource=True)
