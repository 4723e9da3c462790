"""Every type and property of the template is implemented by the emulated account or listed as an exception."""

import pytest

from aws_emulator.cloudformation.inventory import INVENTORY, missing, paths, unknown
from aws_emulator.cloudformation.resources.catalogue import kinds
from aws_emulator.cloudformation.sam_translation import TranslationFailed, translate
from marless.functions.resources.settings import Resource
from marless.infra.deployment import template
from marless.infra.deployment.leftovers import LISTINGS, LOGICAL_IDS, Owned
from marless.infra.deployment.resource_functions import PARAMETER, to_parameter
from marless.infra.deployment.stack import RESOURCE, ROLES

OPTIONS = {"Tracing": "Active", "AlarmEmail": "someone@example.com", "WorkerConcurrency": "5", "Release": "0" * 64}
OPTIONS |= {PARAMETER: to_parameter({"judge": Resource(serve="my_judge:grade")})}

CODE = {role: f"s3://code/{role}.zip" for role in (*ROLES, RESOURCE)}

# Types that are part of another resource and deleted with it.
GO_WITH_ANOTHER = frozenset(
    {
        "AWS::S3::BucketPolicy",
        "AWS::IAM::Policy",
        "AWS::Lambda::Version",
        "AWS::Lambda::Alias",
        "AWS::Lambda::EventInvokeConfig",
        "AWS::Lambda::Permission",
    }
)


@pytest.fixture(scope="module")
def resources():
    return translate(template.fill_in(template.text(), CODE, OPTIONS), OPTIONS, "us-east-1")["Resources"]


@pytest.fixture(scope="module")
def with_image():
    """The resources of a deployment with a learner in a container image."""
    code = {**CODE, "learner": "123456789012.dkr.ecr.us-east-1.amazonaws.com/marless/a:0123"}
    return translate(template.fill_in(template.text(), code, OPTIONS), OPTIONS, "us-east-1")["Resources"]


def strange(resources):
    return sorted(what for of in resources.values() for what in missing(of, of.get("Properties", {})))


def with_more(at, *lines):
    text = template.text()
    assert text.count(f"\n{at}\n") == 1
    longer = text.replace(f"\n{at}\n", "\n".join(["", at, *lines, ""]))
    return translate(template.fill_in(longer, CODE, OPTIONS), OPTIONS, "us-east-1")["Resources"]


@pytest.mark.parametrize(
    "at, line, expected",
    [
        ("      BillingMode: PAY_PER_REQUEST", "      TableClass: STANDARD", "AWS::DynamoDB::Table TableClass"),
        (
            "                SSEAlgorithm: AES256",
            "                Strange: some-key",
            "AWS::S3::Bucket BucketEncryption.ServerSideEncryptionConfiguration[].ServerSideEncryptionByDefault"
            ".Strange",
        ),
        (
            "      FunctionName: !Sub ${AWS::StackName}-actor",
            "      EphemeralStorage: !If [Reserved, {Size: 1024}, !Ref AWS::NoValue]",
            "AWS::Lambda::Function EphemeralStorage.Size",
        ),
        ("Resources:", "  Line: {Type: AWS::Kinesis::Stream}", "AWS::Kinesis::Stream"),
        (
            "Resources:",
            "  More: {Type: AWS::SQS::Queue, DeletionPolicy: Snapshot}",
            "AWS::SQS::Queue DeletionPolicy: Snapshot",
        ),
        ("Resources:", "  More: {Type: AWS::SQS::Queue, UpdatePolicy: {}}", "AWS::SQS::Queue UpdatePolicy"),
    ],
)
def test_unhonoured_addition_to_template_is_found(at, line, expected):
    assert strange(with_more(at, line)) == [expected]


def test_everything_in_the_template_is_in_the_inventory(resources, with_image):
    assert strange(resources) == strange(with_image) == []


def test_image_learner_differs_only_in_package_and_name(resources, with_image):
    zipped, image = (dict(each["Learner"]["Properties"]) for each in (resources, with_image))
    assert zipped.pop("Code") == {"S3Bucket": "code", "S3Key": "learner.zip"}
    assert zipped.pop("Runtime") == "python3.12"
    handler = zipped.pop("Handler")
    assert image.pop("PackageType") == "Image"
    assert image.pop("Code") == {"ImageUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/marless/a:0123"}
    assert image.pop("ImageConfig") == {"Command": [handler]}
    # CloudFormation cannot replace a function by one of the same name, which a change of the package type would be.
    assert zipped.pop("FunctionName") == {"Fn::Sub": "${AWS::StackName}-learner"}
    assert image.pop("FunctionName") == {"Fn::Sub": "${AWS::StackName}-learner-image"}
    assert zipped.pop("Description") != image.pop("Description")  # ends with the release
    assert zipped == image
    # Versions have the release in their logical id.
    logical = [{name for name in each if not name.startswith("LearnerVersion")} for each in (resources, with_image)]
    assert logical[0] == logical[1]


def test_inventory_has_only_entries_used_by_template(resources, with_image):
    everything = [*resources.values(), *with_image.values()]
    used = {(of["Type"], path) for of in everything for path in paths(of.get("Properties", {}))}
    listed = {(type_, path) for type_, known in INVENTORY.items() for path in known}
    assert listed - used == set()


def test_every_entry_tells_who_honours_it():
    said = {how for known in INVENTORY.values() for how in known.values()}
    assert {how for how in said if how not in ("moto", "lambda", "iam") and not how.startswith("static: ")} == set()


def test_every_type_of_the_inventory_can_be_made():
    assert kinds(None, None, None, None).keys() == INVENTORY.keys()


def test_template_without_yaml_is_refused_with_place():
    with pytest.raises(TranslationFailed) as refused:
        translate("Resources:\n  One: [\n", {}, "us-east-1")
    assert str(refused.value) == "Template format error: YAML not well-formed. (line 3, column 1)"


def test_a_type_that_is_not_emulated_is_named():
    assert unknown("AWS::Kinesis::Stream", {"ShardCount": 1}) == ["AWS::Kinesis::Stream"]


def test_unsupported_property_is_named_by_path():
    wanted = {
        "BucketEncryption": {
            "ServerSideEncryptionConfiguration": [
                {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "Strange": True}
            ]
        },
        "ObjectLockEnabled": {"Fn::If": ["Locked", True, {"Ref": "AWS::NoValue"}]},
    }
    assert unknown("AWS::S3::Bucket", wanted) == [
        "AWS::S3::Bucket BucketEncryption.ServerSideEncryptionConfiguration[].Strange",
        "AWS::S3::Bucket ObjectLockEnabled",
    ]


def test_teardown_checks_every_type_that_can_remain(resources):
    types = {of["Type"] for of in resources.values()}
    assert types - LISTINGS.keys() - GO_WITH_ANOTHER == set()


def test_teardown_knows_every_resource_that_cloudformation_names(resources):
    named_by_us = {"AWS::Lambda::Function", "AWS::Logs::LogGroup", "AWS::CloudWatch::Dashboard", "AWS::Budgets::Budget"}
    found = {name for name, of in resources.items() if of["Type"] in LISTINGS.keys() - named_by_us}
    assert found == set(LOGICAL_IDS)


def test_resource_functions_belong_to_stack_before_underscore():
    owned = Owned("marless-a", "a", "123456789012", "us-east-1", [])
    for name, is_own in (("marless-a_judge", True), ("marless-a-b_judge", False), ("marless-a-judge", False)):
        assert (("AWS::Lambda::Function", name) in owned) is is_own


def test_budget_belongs_to_stack_at_start_of_name():
    owned = Owned("marless-a", "a", "123456789012", "us-east-1", [])
    assert ("AWS::Budgets::Budget", "marless-a to b@example.org") in owned
    assert ("AWS::Budgets::Budget", "marless-a-b to b@example.org") not in owned
