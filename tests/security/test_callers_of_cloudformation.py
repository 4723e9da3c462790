"""CloudFormation acts in its caller's name: a stack gets no resource that the caller could not make itself."""

import json
import os
from typing import Any

import pytest

from aws_emulator import account as accounts
from aws_emulator.settings import AccountSettings
from coordinator.cloud.emulated_account import cloud_at
from functions.contract import StorageFault
from infra.aws.clients import Cloud
from infra.deployment import DeploymentFault, deploy, teardown
from infra.packaging.packages import ROOT

ACCOUNT = "123456789012"
STACKS = f"arn:aws:cloudformation:*:{ACCOUNT}:stack/*"
CALLS = (
    "CreateStack",
    "UpdateStack",
    "DeleteStack",
    "DescribeStacks",
    "DescribeStackEvents",
    "ListStackResources",
    "TagResource",
)
SERVICES = ("s3", "dynamodb", "sqs", "sns", "lambda", "events", "logs", "cloudwatch", "budgets", "iam", "ecr")


def allow(*actions: str, resource: str = "*") -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


STACK_CALLS = [
    allow(*(f"cloudformation:{call}" for call in CALLS), resource=STACKS),
    allow("cloudformation:CreateChangeSet", "cloudformation:ListStacks"),
]
EVERYTHING = [*STACK_CALLS, *(allow(f"{service}:*") for service in SERVICES)]


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    far, lifeline = os.pipe()
    started = accounts.start(tmp_path_factory.mktemp("callers"), AccountSettings(code=(ROOT,)), lifeline=far)
    os.close(far)
    yield cloud_at(started.whereabouts)
    started.stop()
    os.close(lifeline)


@pytest.fixture
def caller(operator):
    """Makes a role with a policy, and returns clients of a session of it."""

    def of(name: str, statements: list[dict[str, Any]]) -> Cloud:
        trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
        policy = {"PolicyName": "own", "PolicyDocument": {"Version": "2012-10-17", "Statement": statements}}
        role = {
            "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": trust},
            "Policies": [policy],
        }
        template = {
            "Transform": "AWS::Serverless-2016-10-31",
            "Resources": {"Role": {"Type": "AWS::IAM::Role", "Properties": role}},
            "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}}},
        }
        stacks = operator.client("cloudformation")
        capabilities = ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
        stacks.create_stack(StackName=name, TemplateBody=json.dumps(template), Capabilities=capabilities)
        stacks.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1})
        (stack,) = stacks.describe_stacks(StackName=name)["Stacks"]
        arn = stack["Outputs"][0]["OutputValue"]
        made = operator.client("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
        keys = (made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])
        return Cloud(region=operator.region, endpoint=operator.endpoint, credentials=keys)

    return of


def test_a_caller_who_may_make_every_resource_deploys_and_tears_down(caller):
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
