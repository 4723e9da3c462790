"""Deployment and teardown in an emulated account, checked by lists of its contents."""

import hashlib
import json
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError
from everything import everything, objects
from moto.s3.models import s3_backends
from msgspec.structs import replace

from aws_emulator import account as accounts
from aws_emulator.account_folder import ACCOUNT_NUMBER, AccountFolder
from aws_emulator.cloudformation.intrinsics import Scope
from aws_emulator.cloudformation.resources import storage
from aws_emulator.cloudformation.resources.functions import frozen
from aws_emulator.cloudformation.sam_translation import translate
from aws_emulator.server import EmulatedAccount
from aws_emulator.settings import AccountSettings
from marless.cloud.emulated_account import cloud_at
from marless.functions.errors import StorageFault
from marless.functions.resources.settings import Resource
from marless.infra.aws.clients import Cloud
from marless.infra.aws.function_settings import ASKABLE
from marless.infra.deployment import (
    ROLES,
    DeploymentFault,
    Image,
    Packages,
    deploy,
    describe,
    filled_in,
    preview,
    stack_name,
    teardown,
    template,
)
from marless.infra.deployment.resource_functions import PARAMETER, TOKENS, logical_id, to_parameter
from marless.infra.deployment.stack import Stacks

NAME = "someone"
STACK = "marless-someone"
IMPOSSIBLE = """
  Impossible:
    Type: AWS::Kinesis::Stream
    DependsOn: {after}
    Properties:
      ShardCount: 1

Outputs:"""
LAST_OF_ALL = "[CoordinatorSweep, Errors, GivenUpEvents, WaitingEvents, Spending, Dashboard]"


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    far, lifeline = os.pipe()
    started = accounts.start(tmp_path_factory.mktemp("deployments"), lifeline=far)
    os.close(far)
    yield cloud_at(started.whereabouts)
    started.stop()
    os.close(lifeline)


@pytest.fixture
def cloud(account):
    assert everything(account) == {}
    yield account
    teardown(account, NAME)
    assert everything(account) == {}


@pytest.fixture
def inside(tmp_path, request):
    """An account in this process, for states that no client can cause. It shares moto's memory with other tests."""
    folder = AccountFolder(tmp_path / "inside")
    folder.make()
    made = EmulatedAccount(folder, AccountSettings(code=(tmp_path,), processes=2, **getattr(request, "param", {})))
    made.serve()
    cloud = cloud_at(made.whereabouts)
    before = everything(cloud)
    yield cloud
    teardown(cloud, NAME)
    made.close()
    assert everything(cloud) == before


def impossible(after="Objects"):
    """The template with a resource that cannot be created, after `after` exists."""
    return template.text().replace("\nOutputs:", IMPOSSIBLE.format(after=after))


def versions(cloud):
    client = cloud.client("lambda")
    return {
        role: [of["Version"] for of in client.list_versions_by_function(FunctionName=f"{STACK}-{role}")["Versions"][1:]]
        for role in ROLES
    }


def status(cloud):
    found = Stacks(cloud).find(STACK)
    return found and found.status


def of_every(version):
    return dict.fromkeys(ROLES, version)


def test_a_deployment_is_what_its_stack_describes(cloud):
    assert describe(cloud, STACK) is None
    made = deploy(cloud, NAME, {"ActorMemory": "512", "LearnerTimeout": "60", "WorkerConcurrency": "3"})
    assert made == describe(cloud, STACK)
    assert (made.stack, made.tenant, made.region, made.account) == (STACK, NAME, "us-east-1", ACCOUNT_NUMBER)
    assert made.memory_mb == {"actor": 512, "learner": 1769, "evaluator": 1769, "coordinator": 1769}
    assert made.timeout_s == {"actor": 300, "learner": 60, "evaluator": 300, "coordinator": 300}
    assert (made.code, made.concurrency) == ("unknown", 3)

    client = cloud.client("lambda")
    found = {role: client.get_function_configuration(FunctionName=arn) for role, arn in made.functions.items()}
    assert {role: of["MemorySize"] for role, of in found.items()} == made.memory_mb
    assert {role: of["Timeout"] for role, of in found.items()} == made.timeout_s
    there = everything(cloud)
    assert there["buckets"] == {made.bucket}
    assert there["tables"] == {made.table}
    assert there["queues"] == {made.dead_letters}
    assert there["stacks"] == {STACK}
    assert there["log groups"] == {f"/marless/{STACK}/{role}" for role in ROLES}
    assert set(made.functions.values()) < there["functions"]


def test_company_rules_hold_and_can_be_lifted(cloud):
    # The boundary lets the roles write their logs and send dead letters, and read nothing.
    allowed = {"Effect": "Allow", "Action": ["logs:*", "sqs:*", "ec2:*"], "Resource": "*"}
    iam, s3 = cloud.client("iam"), cloud.client("s3")
    document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    boundary = iam.create_policy(PolicyName="company", PolicyDocument=document)["Policy"]["Arn"]
    key = f"arn:aws:kms:us-east-1:{ACCOUNT_NUMBER}:key/0000-1"
    rules = {"RolePath": "/company/", "LogRetention": "365", "Subnets": "subnet-1,subnet-2", "SecurityGroups": "sg-1"}
    trusting = "Principal: {Service: lambda.amazonaws.com, AWS: " + f"arn:aws:iam::{ACCOUNT_NUMBER}:root" + "}"
    # The test assumes the role, as Lambda alone may.
    anybody = template.text().replace("NotAction: [sqs:SendMessage, ec2:*, kms:*, xray:*]", "Action: sts:TagSession")
    text = anybody.replace("Principal: {Service: lambda.amazonaws.com}", trusting, 1)
    made = deploy(cloud, NAME, {**rules, "PermissionsBoundary": boundary, "KmsKey": key}, template=text)

    role = iam.get_role(RoleName=next(name for name in everything(cloud)["roles"] if "ActorRole" in name))["Role"]
    assert role["Path"] == "/company/"
    assert role["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary
    encryption = s3.get_bucket_encryption(Bucket=made.bucket)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert encryption["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    where = {"Bucket": made.bucket, "Key": f"tenants/{NAME}/runs/a/rounds/1/x.policies.safetensors"}
    s3.put_object(**where, Body=b"1", IfNoneMatch="*")
    actor = cloud.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="actor")["Credentials"]
    keys = (actor["AccessKeyId"], actor["SecretAccessKey"], actor["SessionToken"])
    reader = Cloud(region=cloud.region, endpoint=cloud.endpoint, credentials=keys).client("s3")
    with pytest.raises(ClientError, match="because no permissions boundary allows the s3:GetObject action"):
        reader.get_object(**where)

    deploy(cloud, NAME, rules, template=text)
    assert reader.get_object(**where)["Body"].read() == b"1"
    assert "PermissionsBoundary" not in iam.get_role(RoleName=role["RoleName"])["Role"]
    encryption = s3.get_bucket_encryption(Bucket=made.bucket)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert encryption["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    iam.delete_policy(PolicyArn=boundary)
    with pytest.raises(DeploymentFault, match=r"ActorRole .*NoSuchEntity"):
        deploy(cloud, NAME, {**rules, "PermissionsBoundary": boundary}, template=text)


def test_changed_functions_get_versions_and_earlier_versions_stay(cloud):
    first, said = deploy(cloud, NAME, {}), []
    assert deploy(cloud, NAME, {}, say=said.append) == first
    assert said[-1] == f"stack {STACK} is up to date"
    # Explicit defaults and unused parameters publish nothing.
    usual = template.defaults(template.text())
    beside = {"MonthlyBudget": "7", "EventAge": "600", "LogRetention": "7", "WorkerConcurrency": "2"}
    assert deploy(cloud, NAME, {**usual, **beside, "AlarmEmail": "someone@example.com"}).functions == first.functions
    assert versions(cloud) == of_every(["1"])

    second = deploy(cloud, NAME, {"LearnerTimeout": "60"})
    assert versions(cloud) == {**of_every(["1"]), "learner": ["1", "2"]}
    client = cloud.client("lambda")
    limits = [
        client.get_function_configuration(FunctionName=of.functions["learner"])["Timeout"] for of in (first, second)
    ]
    assert limits == [900, 60]

    deploy(cloud, NAME, {"Code": "another"})
    assert versions(cloud) == {**of_every(["1", "2"]), "learner": ["1", "2", "3"]}
    # The first configuration differs from the latest one.
    deploy(cloud, NAME, {})
    assert versions(cloud) == {**of_every(["1", "2", "3"]), "learner": ["1", "2", "3", "4"]}


def test_release_changes_exactly_with_versions():
    text, code = template.text(), {role: f"s3://code/{role}.zip" for role in ROLES}
    usual = template.defaults(text)

    plain = translate(template.fill_in(text, code, {}), {}, "us-east-1")
    made = {name: (name, _Anything()) for name in plain["Resources"]}

    def looks(parameters):
        names = [role.capitalize() for role in ROLES]
        path = {**usual, **parameters}["RolePath"]
        roles = {f"{name}Role": (name, {"Arn": f"{path}{name}"}) for name in names}
        scope = Scope(plain, {**usual, **parameters, "AWS::StackName": STACK}, {**made, **roles})
        return {name: frozen(scope.resolve(plain["Resources"][name]["Properties"])) for name in names}

    def releases(parameters):
        located = template.fill_in(text, code, parameters)
        found = re.findall(r"AutoPublishCodeSha256: ([0-9a-f]{64})", located)
        return dict(zip([role.capitalize() for role in ROLES], found, strict=True))

    before, released = looks({}), releases({})
    assert len(usual) > 15
    del usual[PARAMETER], usual[TOKENS]  # they change functions of resources
    for name, value in usual.items():
        other = {name: {"Disabled": "Active"}.get(value, f"{value}1")}
        after, releasing = looks(other), releases(other)
        differ = {function for function in before if before[function] != after[function]}
        assert {function for function in released if released[function] != releasing[function]} == differ, name


def test_resource_function_has_pinned_version_and_reserved_slots(cloud):
    judge = Resource(serve="my_judge:grade", slots=3, timeout_s=10)
    made = deploy(cloud, NAME, {PARAMETER: to_parameter({"judge": judge})})
    assert made.resources == {"judge": judge}
    client = cloud.client("lambda")
    name = f"{STACK}_judge"
    assert client.get_function_concurrency(FunctionName=name)["ReservedConcurrentExecutions"] == 3
    found = client.get_function_configuration(FunctionName=made.functions["actor"])["Environment"]["Variables"]
    version = f"arn:aws:lambda:us-east-1:{ACCOUNT_NUMBER}:function:{name}:1"
    assert json.loads(found[ASKABLE])["judge"] == {"function": version, "slots": 3, "timeout_s": 10, "attempts": 3}

    # Functions that ask get the new version. The others keep their version.
    deploy(cloud, NAME, {PARAMETER: to_parameter({"judge": replace(judge, timeout_s=20.0)})})
    assert versions(cloud) == {**of_every(["1", "2"]), "coordinator": ["1"]}
    again = client.get_function_configuration(FunctionName=f"{STACK}-actor")["Environment"]["Variables"]
    assert json.loads(again[ASKABLE])["judge"]["function"] == version.removesuffix("1") + "2"

    assert deploy(cloud, NAME, {}).resources == {}
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        client.get_function_concurrency(FunctionName=name)


def test_large_template_lies_in_bucket_until_teardown(cloud):
    resources = {f"judge_{number}": Resource(http="https://example.com/grade") for number in range(6)}
    resources |= dict.fromkeys(("logs", "role"), resources["judge_0"])  # all resources share such parts
    made = deploy(cloud, NAME, {PARAMETER: to_parameter(resources)})
    assert made.resources == resources
    assert teardown(cloud, NAME) == []


def test_template_names_differ_as_resource_names_do():
    names = ["judge", "my_judge", "myx_judge", "my__judge", "myxjudge"]
    assert len({logical_id(name) for name in names}) == len(names)
    assert all(logical_id(name).isalnum() for name in names)


class _Anything(dict):
    def __missing__(self, key):
        return key


@pytest.mark.parametrize("before", [False, True], ids=["a new bucket", "a bucket of an earlier version"])
def test_bucket_of_archives_refuses_public_and_plain_requests(cloud, tmp_path, before):
    client, bucket = cloud.client("s3"), f"marless-artifacts-{ACCOUNT_NUMBER}-us-east-1-{NAME}"
    if before:
        client.create_bucket(Bucket=bucket)
    archives, said = {role: tmp_path / f"{role}.zip" for role in ROLES}, []
    for role, archive in archives.items():
        archive.write_bytes(role.encode())
    for _ in range(2):
        deploy(cloud, NAME, {}, Packages(archives), say=said.append)
    assert [line for line in said if "uploading" in line] == [f"uploading {role}, 0 MB" for role in ROLES]
    digest = hashlib.sha256(b"learner").hexdigest()
    assert client.get_object(Bucket=bucket, Key=f"learner/{digest}.zip")["Body"].read() == b"learner"
    assert set(client.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values()) == {True}
    (statement,) = json.loads(client.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:*")
    assert statement["Resource"] == [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_bucket_policy_is_judged_and_removed_with_bucket(cloud):
    client, bucket = cloud.client("s3"), "marless-policies"

    def put(statement):
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", **statement}]}
        client.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))

    client.create_bucket(Bucket=bucket)
    with pytest.raises(client.exceptions.ClientError, match="NoSuchBucketPolicy"):
        client.get_bucket_policy(Bucket=bucket)
    tls = {"Condition": {"Bool": {"aws:SecureTransport": "false"}}}
    put({"Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}/*", **tls})
    client.put_object(Bucket=bucket, Key="a", Body=b"1")
    put({"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"})
    with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
        client.put_object(Bucket=bucket, Key="b", Body=b"1")
    client.delete_object(Bucket=bucket, Key="a")
    client.delete_bucket(Bucket=bucket)
    client.create_bucket(Bucket=bucket)
    client.put_object(Bucket=bucket, Key="b", Body=b"1")
    client.delete_object(Bucket=bucket, Key="b")
    client.delete_bucket(Bucket=bucket)


def test_learner_switches_between_image_and_zip(cloud, tmp_path):
    registry, name = cloud.client("ecr"), f"marless/{NAME}"
    registry.create_repository(repositoryName=name)
    for tag in ("0123", "4567"):
        layer = {
            "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
            "size": 1,
            "digest": f"sha256:{tag * 16}",
        }
        registry.put_image(
            repositoryName=name,
            imageManifest=json.dumps({"schemaVersion": 2, "config": layer, "layers": [layer]}),
            imageTag=tag,
            imageManifestMediaType="application/vnd.docker.distribution.manifest.v2+json",
        )

    names, packages = [], Packages(image=Image(tmp_path, "0123"))
    for chosen in (None, packages, packages):
        made = deploy(cloud, NAME, {}, chosen)
        names.append(made.functions["learner"].split(":", 6)[6])
        assert status(cloud) in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
    with pytest.raises(DeploymentFault, match="is UPDATE_ROLLBACK_COMPLETE: Impossible"):
        deploy(cloud, NAME, {}, Packages(image=Image(tmp_path, "4567")), impossible(after=LAST_OF_ALL))
    names.append(deploy(cloud, NAME, {}).functions["learner"].split(":", 6)[6])
    assert names == [f"{STACK}-learner:1", f"{STACK}-learner-image:1", f"{STACK}-learner-image:1", f"{STACK}-learner:1"]
    tags = sorted(sorted(image["imageTags"]) for image in registry.describe_images(repositoryName=name)["imageDetails"])
    assert tags == [["0123", "live-0123"], ["4567"]]
    assert teardown(cloud, NAME) == []
    assert everything(cloud) == {}


def test_a_function_with_another_package_has_another_release():
    code = {role: f"s3://code/{role}.zip" for role in ROLES}
    before, after = (
        template.fill_in(template.text(), packages, {}).splitlines()
        for packages in (code, {**code, "evaluator": "s3://code/new.zip"})
    )
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 2  # its address, its release


def test_half_made_resources_are_removed_or_made_again(cloud):
    said = []
    with pytest.raises(DeploymentFault) as failed:
        deploy(cloud, NAME, {}, template=impossible(after=LAST_OF_ALL))
    assert str(failed.value) == (
        f"stack {STACK} is ROLLBACK_COMPLETE: Impossible (AWS::Kinesis::Stream): the emulated account does not know "
        "AWS::Kinesis::Stream"
    )
    assert everything(cloud) == {"stacks": {STACK}}
    assert describe(cloud, STACK) is None
    made = deploy(cloud, NAME, {}, say=said.append)
    assert f"stack {STACK} is ROLLBACK_COMPLETE; removing it first" in said
    assert describe(cloud, STACK) == made

    assert teardown(cloud, NAME) == []
    assert everything(cloud) == {}
    with pytest.raises(DeploymentFault):
        deploy(cloud, NAME, {}, template=impossible())
    assert teardown(cloud, NAME) == []
    assert everything(cloud) == {}


def test_failed_update_keeps_old_state_and_is_repeatable(cloud):
    before, there = deploy(cloud, NAME, {}), everything(cloud)
    late = impossible(after=LAST_OF_ALL)
    with pytest.raises(DeploymentFault, match="is UPDATE_ROLLBACK_COMPLETE: Impossible"):
        deploy(cloud, NAME, {"LearnerMemory": "2048"}, template=late)
    assert describe(cloud, STACK) == before
    assert {kind: names for kind, names in everything(cloud).items() if kind != "functions"} == {
        kind: names for kind, names in there.items() if kind != "functions"
    }
    after = deploy(cloud, NAME, {"LearnerMemory": "2048"})
    assert after.memory_mb["learner"] == 2048
    assert {role: arn for role, arn in after.functions.items() if role != "learner"} == {
        role: arn for role, arn in before.functions.items() if role != "learner"
    }
    assert len(versions(cloud)["learner"]) == 2


def test_unfinished_resource_is_removed_too(cloud):
    invalid = template.text().replace("ExpirationInDays: !Ref TrajectoryRetention", "ExpirationInDays: soon")
    with pytest.raises(DeploymentFault, match=r"Objects \(AWS::S3::Bucket\)"):
        deploy(cloud, NAME, {}, template=invalid)
    assert everything(cloud) == {"stacks": {STACK}}


@pytest.mark.parametrize(
    "circle, reason", [("Impossible", "Circular dependency"), ("Nobody", "not know AWS::Kinesis::Stream")]
)
def test_template_that_cannot_be_tracked_fails_immediately(cloud, circle, reason):
    small = impossible(after=circle)
    with pytest.raises(DeploymentFault, match=reason):
        deploy(cloud, NAME, {}, template=small)


def test_template_invalid_for_cloudformation_is_not_sent(cloud):
    with pytest.raises(DeploymentFault, match="CloudFormation takes 1,000,000"):
        deploy(cloud, NAME, {}, template=f"{template.text()}Metadata:\n  Long: {'x' * 1_000_000}\n")
    assert everything(cloud) == {}


def test_two_that_deploy_at_once_make_one_deployment(cloud):
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: deploy(cloud, NAME, {}), range(2))
    assert one == other == describe(cloud, STACK)
    assert versions(cloud) == of_every(["1"])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda size: deploy(cloud, NAME, {"ActorMemory": size}), ("512", "1024")))
    assert describe(cloud, STACK).memory_mb["actor"] in (512, 1024)
    assert status(cloud) == "UPDATE_COMPLETE"


def test_teardown_empties_account_and_is_repeatable(cloud):
    assert teardown(cloud, NAME) == []
    made, said = deploy(cloud, NAME, {"AlarmEmail": "someone@example.com"}), []
    for email, dollars in (("someone@example.com", "60"), ("else@example.com", "60")):
        deploy(cloud, NAME, {"AlarmEmail": email, "MonthlyBudget": dollars})
        (budget,) = cloud.client("budgets").describe_budgets(AccountId=ACCOUNT_NUMBER)["Budgets"]
        assert (budget["BudgetName"], budget["BudgetLimit"]["Amount"]) == (f"{STACK} to {email}", dollars)
    alarming = {"alarms", "budgets", "dashboards", "topics", "subscriptions"}
    assert everything(cloud).keys() >= {"aliases", "rules", "roles"} | alarming
    client = cloud.client("s3")
    client.put_bucket_versioning(Bucket=made.bucket, VersioningConfiguration={"Status": "Enabled"})
    for _ in range(2):
        for key in ("tenants/a", "tenants/b"):
            client.put_object(Bucket=made.bucket, Key=key, Body=b"1", IfNoneMatch="*")
            client.delete_object(Bucket=made.bucket, Key=key)
    client.create_multipart_upload(Bucket=made.bucket, Key="tenants/c")
    assert len(list(objects(cloud, made.bucket))) == 9  # two objects and two markers of each key, an upload
    # Resources that Lambda and its users create outside the stack.
    cloud.client("logs").create_log_group(logGroupName=f"/aws/lambda/{STACK}-actor")
    cloud.client("ecr").create_repository(repositoryName=f"marless/{NAME}")
    client.create_bucket(Bucket=f"marless-artifacts-{ACCOUNT_NUMBER}-us-east-1-{NAME}")

    assert teardown(cloud, NAME, say=said.append) == []
    assert everything(cloud) == {}
    assert f"deleted 9 objects from {made.bucket}" in said
    with pytest.raises(cloud.client("lambda").exceptions.ResourceNotFoundException):
        cloud.client("lambda").invoke(FunctionName=made.functions["actor"])
    said.clear()
    assert teardown(cloud, NAME, say=said.append) == []
    assert said == []


def test_what_belongs_to_another_tenant_stays(cloud):
    neighbours = [f"{NAME}-actor", f"{NAME}2"]  # names that share prefixes with the stack's resources
    for neighbour in neighbours:
        made = deploy(cloud, neighbour, {})
        cloud.client("s3").put_object(Bucket=made.bucket, Key="tenants/x", Body=b"1", IfNoneMatch="*")
    there = everything(cloud)
    deploy(cloud, NAME, {})
    assert teardown(cloud, NAME) == []
    assert everything(cloud) == there
    for neighbour in neighbours:
        assert describe(cloud, stack_name(neighbour)) is not None
        assert teardown(cloud, neighbour) == []


def test_undeletable_s3_objects_are_named_and_others_removed(cloud):
    made, said = deploy(cloud, NAME, {}), []
    client = cloud.client("s3")
    client.put_bucket_versioning(Bucket=made.bucket, VersioningConfiguration={"Status": "Enabled"})
    lock = {"ObjectLockEnabled": "Enabled"}
    client.put_object_lock_configuration(Bucket=made.bucket, ObjectLockConfiguration=lock)
    client.put_object(Bucket=made.bucket, Key="tenants/held", Body=b"1", IfNoneMatch="*")
    client.put_object_legal_hold(Bucket=made.bucket, Key="tenants/held", LegalHold={"Status": "ON"})

    left = teardown(cloud, NAME, say=said.append, wait=lambda seconds: None)
    why = (
        f"S3 does not delete {made.bucket}/tenants/held: AccessDenied: Access Denied because object protected by object"
        " lock."
    )
    assert left == [f"S3 Bucket {made.bucket} ({why})"]
    assert everything(cloud).keys() == {"buckets", "objects"}

    client.put_object_legal_hold(Bucket=made.bucket, Key="tenants/held", LegalHold={"Status": "OFF"})
    assert teardown(cloud, NAME) == []


def test_bucket_policy_against_deletion_goes_with_stack(cloud):
    forbidding = template.text().replace(
        "          - Sid: KeysAreWrittenOnce\n",
        "          - Sid: Keep\n            Effect: Deny\n            Principal: '*'\n            Action: s3:Delete*\n"
        "            Resource: !Sub ${Objects.Arn}/*\n          - Sid: KeysAreWrittenOnce\n",
    )
    made, said = deploy(cloud, NAME, {}, template=forbidding), []
    cloud.client("s3").put_object(Bucket=made.bucket, Key="tenants/kept", Body=b"1", IfNoneMatch="*")
    assert teardown(cloud, NAME, say=said.append) == []
    assert f"deleted 1 object from {made.bucket}" in said


def test_stack_deletion_is_guarded_and_keeps_data(cloud):
    made, stacks = deploy(cloud, NAME, {}), cloud.client("cloudformation")
    cloud.client("s3").put_object(Bucket=made.bucket, Key="tenants/kept", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="cannot be deleted while TerminationProtection is enabled"):
        stacks.delete_stack(StackName=STACK)
    stacks.update_termination_protection(StackName=STACK, EnableTerminationProtection=False)
    stacks.delete_stack(StackName=STACK)
    stacks.get_waiter("stack_delete_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1})
    assert everything(cloud).keys() == {"buckets", "objects", "tables"}
    assert teardown(cloud, NAME) == []
    assert everything(cloud) == {}


def test_a_failed_creation_keeps_neither_bucket_nor_table(cloud):
    broken = template.text().replace("Service: lambda", "Service: ecs-tasks", 1)
    with pytest.raises(DeploymentFault, match="ROLLBACK_COMPLETE"):
        deploy(cloud, NAME, {}, template=broken)
    assert "buckets" not in everything(cloud) and "tables" not in everything(cloud)
    assert teardown(cloud, NAME) == []


def test_preview_names_changes_and_changes_nothing(cloud):
    first = preview(cloud, NAME, {})
    assert {change.action for change in first} == {"Add"}
    assert {"Objects", "Runs", "ActorRole", "Learner"} <= {change.logical for change in first}
    assert everything(cloud) == {}
    deploy(cloud, NAME, {})
    there = everything(cloud)
    assert preview(cloud, NAME, {}) == []
    moved = {change.logical: change for change in preview(cloud, NAME, {"RolePath": "/company/"})}
    assert (moved["ActorRole"].action, moved["ActorRole"].replacement) == ("Modify", "True")
    larger = {change.logical: change for change in preview(cloud, NAME, {"ActorMemory": "3008"})}
    assert (larger["Actor"].action, larger["Actor"].replacement) == ("Modify", "False")
    assert "Learner" not in larger
    tagged = preview(cloud, NAME, {}, tags={"CostCenter": "42"})
    assert {change.action for change in tagged} == {"Modify"}
    assert everything(cloud) == there
    assert teardown(cloud, NAME) == []


def test_other_pipeline_makes_same_stack_from_template(cloud):
    chosen = {"ActorMemory": "3008", "Tracing": "Active", "RolePath": "/company/"}
    text = filled_in(cloud, NAME, chosen)
    assert everything(cloud) == {}
    client = cloud.client("cloudformation")
    client.create_stack(
        StackName=STACK,
        TemplateBody=text,
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        Tags=[{"Key": "marless:tenant", "Value": NAME}],
    )
    client.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1})
    parameters = Stacks(cloud).find(STACK).parameters
    assert parameters.items() >= {"Tenant": NAME, **chosen}.items()
    assert preview(cloud, NAME, chosen) == []
    assert teardown(cloud, NAME) == []


def test_tags_stay_until_others_are_given(cloud):
    def tags():
        (stack,) = cloud.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        return {tag["Key"]: tag["Value"] for tag in stack["Tags"]}

    own = {"marless:tenant": NAME}
    for given, expected in ((None, own), ({"a": "1"}, {"a": "1"} | own), (None, {"a": "1"} | own), ({}, own)):
        deploy(cloud, NAME, {}, tags=given)
        assert tags() == expected
    assert teardown(cloud, NAME) == []


def test_missing_permission_is_one_line_and_changes_nothing(cloud):
    trusting = "Principal: {Service: lambda.amazonaws.com, AWS: " + f"arn:aws:iam::{ACCOUNT_NUMBER}:root" + "}"
    text = template.text().replace("Principal: {Service: lambda.amazonaws.com}", trusting, 1)
    deploy(cloud, NAME, {}, template=text)
    there = everything(cloud)
    role = next(name for name in there["roles"] if "ActorRole" in name)
    given = cloud.client("sts").assume_role(
        RoleArn=f"arn:aws:iam::{ACCOUNT_NUMBER}:role/{role}", RoleSessionName="somebody"
    )["Credentials"]
    keys = (given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    somebody = Cloud(region=cloud.region, endpoint=cloud.endpoint, credentials=keys)
    for doing, act in (("deploy", lambda: deploy(somebody, NAME, {})), ("remove", lambda: teardown(somebody, NAME))):
        with pytest.raises(StorageFault) as refused:
            act()
        denied = "access denied: the credentials in use lack the permission DescribeStacks there"
        assert str(refused.value) == f"cannot {doing} stack {STACK}: {denied}"
    assert everything(cloud) == there


@pytest.mark.slow
@pytest.mark.parametrize("inside", [{"memory_mb": 3008}], indirect=True)
def test_memory_beyond_account_limit_is_refused_with_advice(inside):
    refused = (
        r"Learner \(AWS::Lambda::Function\): .*'MemorySize' value failed to satisfy constraint: Member must have value"
        r" less than or equal to 3008.*; deploy with less memory, such as --learner-memory 3008, or request a higher"
    )
    with pytest.raises(DeploymentFault, match=rf"is ROLLBACK_COMPLETE: {refused}"):
        deploy(inside, NAME, {"LearnerMemory": "3009"})
    made = deploy(inside, NAME, {"LearnerMemory": "3008"})
    assert made.memory_mb["learner"] == 3008
    with pytest.raises(DeploymentFault, match=rf"is UPDATE_ROLLBACK_COMPLETE: {refused}"):
        deploy(inside, NAME, {"LearnerMemory": "3009"})
    assert describe(inside, STACK) == made


@pytest.mark.slow
def test_failed_rollback_is_left_to_user(inside, monkeypatch):
    deploy(inside, NAME, {})
    update, calls = storage.Queue.update, []

    def unreliable(self, made, before, after):
        calls.append(after)
        if len(calls) == 2:
            raise ValueError("the queue is tired")
        update(self, made, before, after)

    monkeypatch.setattr(storage.Queue, "update", unreliable)
    shorter = impossible(after="DeadLetters").replace("MessageRetentionPeriod: 1209600", "MessageRetentionPeriod: 60")
    with pytest.raises(DeploymentFault, match=r"is UPDATE_ROLLBACK_FAILED: Impossible \(AWS::Kinesis::Stream\)"):
        deploy(inside, NAME, {}, template=shorter)
    with pytest.raises(DeploymentFault, match=r"cannot be changed: .* or remove it with `marless cloud teardown`"):
        deploy(inside, NAME, {})
    assert teardown(inside, NAME) == []


@pytest.mark.slow
def test_a_creation_whose_rollback_fails_is_made_again(inside, monkeypatch):
    def stubborn(*_):
        raise ValueError("the queue stays")

    with monkeypatch.context() as patched:
        patched.setattr(storage.Queue, "delete", stubborn)
        with pytest.raises(DeploymentFault, match="is ROLLBACK_FAILED: Impossible"):
            deploy(inside, NAME, {}, template=impossible(after="DeadLetters"))
    assert deploy(inside, NAME, {}) == describe(inside, STACK)


def test_a_deployment_waits_for_the_one_under_way(inside, monkeypatch):
    create, begun, go_on, said = storage.Queue.create, threading.Event(), threading.Event(), []

    def slow(*arguments):
        begun.set()
        assert go_on.wait(30)
        return create(*arguments)

    def wait(_):
        if len(said) > 1:
            go_on.set()

    monkeypatch.setattr(storage.Queue, "create", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(deploy, inside, NAME, {})
        assert begun.wait(30)
        second = deploy(inside, NAME, {}, say=said.append, wait=wait)
        assert first.result() == second
    progress = [line for line in said if "resources done" in line]
    assert progress[0] == f"stack {STACK}: 2 resources done, at work on DeadLetters"
    assert [line for line in said if line not in progress] == [
        f"stack {STACK} is CREATE_IN_PROGRESS; waiting for its end",
        f"updating stack {STACK}",
        f"stack {STACK} is up to date",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("versioning", [pytest.param(None, marks=pytest.mark.conformance), "Enabled"])
@pytest.mark.parametrize("count", [1_100, pytest.param(10_000, marks=pytest.mark.conformance)])
def test_a_bucket_of_many_pages_goes(inside, count, versioning):
    made, said = deploy(inside, NAME, {}), []
    if versioning:
        settings = {"Status": versioning}
        inside.client("s3").put_bucket_versioning(Bucket=made.bucket, VersioningConfiguration=settings)
    for number in range(count):
        s3_backends[ACCOUNT_NUMBER]["aws"].put_object(made.bucket, f"tenants/{NAME}/{number:05}", b"1")
    assert teardown(inside, NAME, say=said.append) == []
    assert f"deleted {count:,} objects from {made.bucket}" in said
