"""Principals of an emulated account: a role with a given policy, and clients with a session of it."""

import json
import os
import time
from typing import Any

import pytest

from aws_emulator import account as accounts
from aws_emulator.settings import AccountSettings
from marless.cloud.emulated_account import cloud_at
from marless.infra.aws.clients import Cloud
from marless.infra.packaging.package_build import ROOT

ACCOUNT = "123456789012"


@pytest.fixture(scope="session")
def operator(tmp_path_factory):
    far, lifeline = os.pipe()
    started = accounts.start(tmp_path_factory.mktemp("callers"), AccountSettings(code=(ROOT,)), lifeline=far)
    os.close(far)
    yield cloud_at(started.whereabouts)
    started.stop()
    os.close(lifeline)


def principal(operator: Cloud, name: str, document: dict[str, Any]) -> Cloud:
    """Makes a role with that policy in a stack `name`, as nothing else makes roles that the account judges."""
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    role = {
        "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": trust},
        "Policies": [{"PolicyName": "own", "PolicyDocument": document}],
    }
    template = {
        "Transform": "AWS::Serverless-2016-10-31",
        "Resources": {"Role": {"Type": "AWS::IAM::Role", "Properties": role}},
        "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}}},
    }
    stacks = operator.client("cloudformation")
    capabilities = ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
    stacks.create_stack(StackName=name, TemplateBody=json.dumps(template), Capabilities=capabilities)
    while (stack := stacks.describe_stacks(StackName=name)["Stacks"][0])["StackStatus"] == "CREATE_IN_PROGRESS":
        time.sleep(0.01)
    arn = stack["Outputs"][0]["OutputValue"]
    made = operator.client("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
    keys = (made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])
    return Cloud(region=operator.region, endpoint=operator.endpoint, credentials=keys)
