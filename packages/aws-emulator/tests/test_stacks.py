"""Stacks of the emulated CloudFormation: updates in place, and the remains of a deletion or a failure."""

import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from emulated_accounts import living, operator
from emulated_service import CODE

from aws_emulator.cloudformation.inventory import INVENTORY
from aws_emulator.cloudformation.resources.functions import EventInvokeConfig, Functions, Permission
from aws_emulator.cloudformation.resources.kind import PhysicalResource
from aws_emulator.lambda_service.versions import Registry

STACK = "small"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    with living(tmp_path_factory.mktemp("stacks"), CODE) as account:
        yield operator(account)


@pytest.fixture
def stacks(cloud):
    client = cloud.client("cloudformation")
    yield client
    client.delete_stack(StackName=STACK)
    settled(client)


def settled(client):
    """The stack when its operation has ended, or None."""
    while True:
        try:
            (stack,) = client.describe_stacks(StackName=STACK)["Stacks"]
        except client.exceptions.ClientError:
            return None
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            return stack
        time.sleep(0.01)


def resources(text):
    return f"Transform: AWS::Serverless-2016-10-31\nResources:\n{text}"


def create(client, text, **more):
    client.create_stack(StackName=STACK, TemplateBody=text, Capabilities=["CAPABILITY_AUTO_EXPAND"], **more)
    return settled(client)["StackStatus"]


def update(client, text, **more):
    client.update_stack(StackName=STACK, TemplateBody=text, Capabilities=["CAPABILITY_AUTO_EXPAND"], **more)
    return settled(client)["StackStatus"]


def physical(client):
    found = client.list_stack_resources(StackName=STACK)["StackResourceSummaries"]
    return {of["LogicalResourceId"]: of["PhysicalResourceId"] for of in found}


def topic(*addresses):
    subscriptions = [f"{{Protocol: email, Endpoint: {address}}}" for address in addresses]
    return resources(
        f"  Topic: {{Type: AWS::SNS::Topic, Properties: {{Subscription: [{', '.join(subscriptions)}]}}}}\n"
    )


def test_topic_keeps_name_when_subscriptions_change(cloud, stacks):
    assert create(stacks, topic("a@example.com", "b@example.com")) == "CREATE_COMPLETE"
    before = physical(stacks)
    assert update(stacks, topic("b@example.com", "c@example.com")) == "UPDATE_COMPLETE"
    assert physical(stacks) == before
    found = cloud.client("sns").list_subscriptions_by_topic(TopicArn=before["Topic"])["Subscriptions"]
    assert sorted(one["Endpoint"] for one in found) == ["b@example.com", "c@example.com"]


def test_unchanged_update_is_refused_only_without_transform(stacks):
    wanted = topic("a@example.com")
    assert create(stacks, wanted) == "CREATE_COMPLETE"
    assert update(stacks, wanted) == "UPDATE_COMPLETE"
    plain = wanted.partition("\n")[2]
    assert update(stacks, plain.replace("a@", "b@")) == "UPDATE_COMPLETE"
    with pytest.raises(ClientError, match=r"No updates are to be performed\."):
        update(stacks, plain.replace("a@", "b@"))


def test_change_set_without_changes_fails_with_any_template(stacks):
    wanted = topic("a@example.com")
    assert create(stacks, wanted) == "CREATE_COMPLETE"
    for name, text in (("transformed", wanted), ("plain", wanted.partition("\n")[2])):
        made = stacks.create_change_set(
            StackName=STACK, ChangeSetName=name, TemplateBody=text, Capabilities=["CAPABILITY_AUTO_EXPAND"]
        )
        found = stacks.describe_change_set(ChangeSetName=made["Id"])
        assert (found["Status"], found["Changes"]) == ("FAILED", [])
        assert found["StatusReason"].startswith("The submitted information didn't contain changes.")
        with pytest.raises(ClientError, match=r"cannot be executed in its current status of \[FAILED\]"):
            stacks.execute_change_set(ChangeSetName=made["Id"])
        stacks.delete_change_set(ChangeSetName=made["Id"])
        with pytest.raises(ClientError, match="does not exist"):
            stacks.describe_change_set(ChangeSetName=made["Id"])


def test_policy_that_fails_for_one_role_has_none(cloud, stacks):
    iam = cloud.client("iam")
    iam.create_role(RoleName="outside", AssumeRolePolicyDocument="{}")
    text = resources(
        "  Policy:\n    Type: AWS::IAM::Policy\n"
        "    Properties:\n      PolicyName: wrong\n      Roles: [outside, absent]\n"
        "      PolicyDocument: {Version: '2012-10-17', Statement: {Effect: Allow, Action: sqs:*, Resource: '*'}}\n"
    )
    assert create(stacks, text) == "ROLLBACK_COMPLETE"
    assert iam.list_role_policies(RoleName="outside")["PolicyNames"] == []
    iam.delete_role(RoleName="outside")


def test_a_rule_whose_targets_are_refused_goes_too(cloud, stacks):
    text = resources(
        "  Nightly:\n    Type: AWS::Events::Rule\n    Properties:\n      ScheduleExpression: rate(1 day)\n"
        "      Targets: [{Id: nightly, Arn: nowhere}]\n"
    )
    assert create(stacks, text) == "ROLLBACK_COMPLETE"
    assert cloud.client("events").list_rules(NamePrefix=STACK)["Rules"] == []


def test_lambda_defaults_return_when_event_settings_are_deleted():
    registry = Registry("us-east-1", "123456789012", 1000)
    functions = Functions(registry, (Path(),))
    functions.set("one", {"Handler": "one.handler", "Role": "role"})
    functions.publish("one", "1")
    functions.point("one", "1")
    kind, wanted = EventInvokeConfig(functions), {"FunctionName": "one", "Qualifier": "live"}
    made = kind.create("", {**wanted, "MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": "60"})
    function = registry.resolve("one", "live").function
    assert (function.max_retries, function.max_event_age_s) == (0, 60)
    kind.delete(made, wanted)
    function = registry.resolve("one", "live").function
    # API_PutFunctionEventInvokeConfig: two retries, six hours.
    assert (function.max_retries, function.max_event_age_s) == (2, 6 * 3600)
    functions.remove("one")
    kind.delete(PhysicalResource(""), wanted)  # after the function


def test_every_change_of_a_permission_makes_another_one():
    # Template reference, "AWS::Lambda::Permission": an update of any property requires replacement.
    assert Permission.create_only == INVENTORY["AWS::Lambda::Permission"].keys()
