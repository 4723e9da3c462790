"""Resources that a tenant's deleted stack left behind."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from marless.infra.aws.clients import Cloud
from marless.infra.deployment import bucket
from marless.infra.deployment.stack import (
    RESOURCE,
    ROLES,
    Say,
    StackPart,
    artifacts_bucket,
    function_names,
    repository,
    resource_function,
)


class ListCall(NamedTuple):
    """A call that lists a service's resources, and the JMESPath of the names in its response."""

    service: str
    call: str
    names: str
    # The argument that filters by prefix. Every listed name is checked anyway.
    prefix: str = ""
    # The argument that names the account.
    account: str = ""


LISTINGS: dict[str, ListCall] = {
    "AWS::S3::Bucket": ListCall("s3", "list_buckets", "Buckets[].Name"),
    "AWS::DynamoDB::Table": ListCall("dynamodb", "list_tables", "TableNames[]"),
    "AWS::SQS::Queue": ListCall("sqs", "list_queues", "QueueUrls[]", "QueueNamePrefix"),
    "AWS::Logs::LogGroup": ListCall("logs", "describe_log_groups", "logGroups[].logGroupName"),
    "AWS::IAM::Role": ListCall("iam", "list_roles", "Roles[].RoleName"),
    "AWS::Lambda::Function": ListCall("lambda", "list_functions", "Functions[].FunctionName"),
    "AWS::Events::Rule": ListCall("events", "list_rules", "Rules[].Name", "NamePrefix"),
    "AWS::CloudWatch::Alarm": ListCall("cloudwatch", "describe_alarms", "MetricAlarms[].AlarmName", "AlarmNamePrefix"),
    "AWS::CloudWatch::Dashboard": ListCall(
        "cloudwatch", "list_dashboards", "DashboardEntries[].DashboardName", "DashboardNamePrefix"
    ),
    "AWS::Budgets::Budget": ListCall("budgets", "describe_budgets", "Budgets[].BudgetName", account="AccountId"),
    "AWS::SNS::Topic": ListCall("sns", "list_topics", "Topics[].TopicArn"),
    "AWS::ECR::Repository": ListCall("ecr", "describe_repositories", "repositories[].repositoryName"),
}

LOGICAL_IDS = (
    *(f"{role.capitalize()}Role" for role in (*ROLES, RESOURCE)),
    "AlarmTopic",
    "BusyCoordinator",
    "Concurrency",
    "CoordinatorSweep",
    "DeadLetters",
    "Errors",
    "FailedRuns",
    "GivenUpEvents",
    "MissingSweep",
    "Objects",
    "Runs",
    "Spending",
    "WaitingEvents",
)
"""The resources of the template that CloudFormation finds names for."""

_NAMED_BY_US = frozenset({"AWS::Lambda::Function", "AWS::CloudWatch::Dashboard", "AWS::ECR::Repository"})


class Owned:
    """Decides whether a name belongs to one tenant's stack."""

    def __init__(self, stack: str, tenant: str, account: str, region: str, parts: Iterable[StackPart]) -> None:
        self._known = {(part.type, part.id) for part in parts}
        self._known |= {("AWS::Lambda::Function", name) for name in function_names(stack)}
        # Lambda creates a group of that name by itself if its role permits.
        self._known |= {("AWS::Logs::LogGroup", f"/aws/lambda/{name}") for name in function_names(stack)}
        self._known |= {("AWS::Logs::LogGroup", f"/marless/{stack}/{role}") for role in (*ROLES, RESOURCE)}
        self._known |= {
            ("AWS::CloudWatch::Dashboard", stack),
            ("AWS::S3::Bucket", artifacts_bucket(account, region, tenant)),
            ("AWS::ECR::Repository", repository(tenant)),
        }
        # CloudFormation generates names from stack, logical id and random letters and digits. Names of a tenant
        # `<this tenant>-<more>` do not match, because `<more>` comes before the logical id.
        generated_name = rf"(?:.*[/:])?{re.escape(stack)}-(?:{'|'.join(LOGICAL_IDS)})-[a-z0-9]{{8,}}"
        self._made = re.compile(generated_name, re.IGNORECASE)
        self._stack, self.account = stack, account
        self._resources = resource_function(stack, "")

    @property
    def prefix(self) -> str:
        return f"{self._stack}-"

    def __contains__(self, resource: tuple[str, str]) -> bool:
        type_, name = resource
        if resource in self._known or (type_ == "AWS::Lambda::Function" and name.startswith(self._resources)):
            return True
        if type_ == "AWS::Budgets::Budget":  # STACK to ADDRESS
            return name.startswith(f"{self._stack} to ")
        return type_ not in _NAMED_BY_US and self._made.fullmatch(name) is not None


def remaining(cloud: Cloud, ownership: Owned) -> list[StackPart]:
    """The stack's resources that still exist."""
    return [
        StackPart("", type_, name)
        for type_, listing in LISTINGS.items()
        for name in _names(cloud, listing, ownership)
        if (type_, name) in ownership
    ]


def delete(cloud: Cloud, part: StackPart, say: Say) -> None:
    """Deletes a resource that a stack may leave behind: a retained one, or one created outside the stack.

    Types that only CloudFormation creates, and always deletes, are skipped.
    """
    if part.type in DELETIONS and (count := DELETIONS[part.type](cloud, part.id)):
        say(f"deleted {count:,} object{'s' * (count > 1)} from {part.id}")


def _names(cloud: Cloud, listing: ListCall, ownership: Owned) -> Iterator[str]:
    filters = {listing.prefix: ownership.prefix.rstrip("-"), listing.account: ownership.account}
    arguments = {argument: value for argument, value in filters.items() if argument}
    client = cloud.client(listing.service)
    names = client.get_paginator(listing.call).paginate(**arguments).search(listing.names)
    return (name for name in names if name is not None)  # an empty page yields None


def _deletion(service: str, call: str, argument: str, **options: bool) -> Callable[[Cloud, str], None]:
    def delete_resource(cloud: Cloud, name: str) -> None:
        getattr(cloud.client(service), call)(**{argument: name}, **options)

    return delete_resource


DELETIONS: dict[str, Callable[[Cloud, str], int | None]] = {
    "AWS::S3::Bucket": bucket.remove,
    "AWS::DynamoDB::Table": _deletion("dynamodb", "delete_table", "TableName"),
    "AWS::SQS::Queue": _deletion("sqs", "delete_queue", "QueueUrl"),
    "AWS::Logs::LogGroup": _deletion("logs", "delete_log_group", "logGroupName"),
    "AWS::Lambda::Function": _deletion("lambda", "delete_function", "FunctionName"),
    "AWS::ECR::Repository": _deletion("ecr", "delete_repository", "repositoryName", force=True),
}
