"""CloudFormation acts in its caller's name: a stack gets only resources that the caller may create."""

from typing import Any

import pytest
from principals import ACCOUNT, principal

from marless.functions.errors import StorageFault
from marless.infra.deployment import DeploymentFault, deploy, teardown

STACKS = f"arn:aws:cloudformation:*:{ACCOUNT}:stack/*"
CALLS = (
    "CreateStack",
    "UpdateStack",
    "DeleteStack",
    "DescribeStacks",
    "DescribeStackEvents",
    "ListStackResources",
    "TagResource",
    "UpdateTerminationProtection",
)
SERVICES = ("s3", "dynamodb", "sqs", "sns", "lambda", "events", "logs", "cloudwatch", "budgets", "iam", "ecr")


def allow(*actions: str, resource: str = "*") -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


STACK_CALLS = [
    allow(*(f"cloudformation:{call}" for call in CALLS), resource=STACKS),
    allow("cloudformation:CreateChangeSet", "cloudformation:ListStacks"),
]
EVERYTHING = [*STACK_CALLS, *(allow(f"{service}:*") for service in SERVICES)]


@pytest.fixture
def caller(operator):
    """Makes a role with a policy, and returns clients of a session of it."""
    return lambda name, statements: principal(operator, name, {"Version": "2012-10-17", "Statement": statements})


def test_caller_with_all_resource_permissions_deploys_and_removes(caller):
    cloud = caller("administrator", EVERYTHING)
    assert deploy(cloud, "first", {}).functions
    assert teardown(cloud, "first") == []


@pytest.mark.parametrize(
    ("without", "refused"),
    [
        ("iam:PassRole", "iam:PassRole on resource"),
        ("iam:CreateRole", "iam:CreateRole on resource"),
        ("dynamodb:CreateTable", "dynamodb:CreateTable on resource"),
        ("s3:PutBucketPolicy", "s3:PutBucketPolicy on resource"),
        ("logs:PutRetentionPolicy", "logs:PutRetentionPolicy on resource"),
        ("events:PutTargets", "events:PutTargets on resource"),
        ("lambda:PublishVersion", "lambda:PublishVersion on resource"),
        ("cloudwatch:PutMetricAlarm", "cloudwatch:PutMetricAlarm on resource"),
        ("cloudformation:CreateChangeSet", "the credentials in use lack the permission CreateStack"),
    ],
)
def test_a_stack_needs_every_permission_of_its_caller(caller, without, refused):
    denied = {"Effect": "Deny", "Action": without, "Resource": "*"}
    cloud = caller(f"without-{without.replace(':', '-')}", [*EVERYTHING, denied])
    with pytest.raises((DeploymentFault, StorageFault), match=refused):
        deploy(cloud, "second", {})
