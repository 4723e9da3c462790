"""Deployments and runs with exactly the documented permissions, in an emulated account that judges every request."""

import json
import os
import zipfile
from typing import Any

import pytest
from commands import SMALL, Commands
from principals import ACCOUNT, principal

from marless.functions.errors import StorageFault
from marless.infra.aws.clients import Cloud
from marless.infra.deployment import ROLES, DeploymentFault, Packages, deploy, identity_policy, preview, teardown
from marless.reports import provenance

# The tenants of the trainers and the deployers. The first name is the beginning of the second.
TENANTS = {"trainer": "a", "deployer": "a-b"}
ON = {who: ("--backend", "aws", "--tenant", tenant) for who, tenant in TENANTS.items()}
TRAIN = ("train", *SMALL, *ON["trainer"])
# With all resources of the template.
PARAMETERS = {"Code": provenance.code_sha256(), "AlarmEmail": "someone@example.com", "WorkerConcurrency": "100"}


def document(who: str, region: str, without: str = "") -> dict[str, Any]:
    policy = json.loads(identity_policy(who, ACCOUNT, region, TENANTS[who]))
    kept = [statement for statement in policy["Statement"] if statement["Sid"] != without]
    assert len(kept) == len(policy["Statement"]) - bool(without)
    return {**policy, "Statement": kept}


@pytest.fixture(scope="module")
def having(operator):
    """Clients with the documented permissions of a trainer or a deployer, less one statement."""
    made: dict[tuple[str, str], Cloud] = {}

    def of(who: str, without: str = "") -> Cloud:
        if (who, without) not in made:
            made[who, without] = principal(
                operator, f"{who}-{without or 'all'}", document(who, operator.region, without)
            )
        return made[who, without]

    return of


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    for role in ROLES:
        with zipfile.ZipFile(folder / f"{role}.zip", "w") as archive:
            archive.writestr("README", role)
    return Packages({role: folder / f"{role}.zip" for role in ROLES})


@pytest.fixture(scope="module")
def deployed(operator, packages):
    """The trainers' deployment, without reserved concurrency, as a deployment is at first."""
    yield deploy(operator, TENANTS["trainer"], {"Code": provenance.code_sha256()}, packages)
    assert teardown(operator, TENANTS["trainer"]) == []


@pytest.fixture
def marless(tmp_path, shell, capfd):
    """Commands with a principal's credentials, like in a shell that exports them."""
    shell.cd(tmp_path)
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    commands = Commands(capfd)

    def call(cloud: Cloud, *argv: str):
        key, secret, token = cloud.credentials
        credentials = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": token}
        place = {"AWS_ENDPOINT_URL": cloud.endpoint, "AWS_DEFAULT_REGION": cloud.region}
        shell.export(**{**nowhere, **credentials, **place})
        return commands(*argv)

    return call


@pytest.mark.slow
def test_trainer_trains_watches_stops_resumes_and_reads_logs(having, deployed, marless):
    trainer, on = having("trainer"), ON["trainer"]

    def ran(*argv: str) -> list[str]:
        said = marless(trainer, *argv)
        assert said.code == 0, said.err
        return said.out

    ran("train", *SMALL, *on, "--run", "driven")
    ran("train", *SMALL, *on, "--run", "detached", "--detach")
    ran("status", "--follow", "detached")
    ran("train", *SMALL, *on, "--run", "long", "--detach", "stop.rounds=5000")
    ran("stop", "long")
    ran("resume", "long", "--detach")
    ran("stop", "long")
    ran("resume", "long", "stop.rounds=1")
    for run in ("driven", "detached", "long"):
        ran("status", run)
        ran("runs", "verify", run)
    assert any("run=detached" in line for line in ran("cloud", "logs", "detached", "--since", "1h"))


def test_a_deployer_deploys_updates_and_tears_down(having, packages, marless, operator):
    deployer, tenant = having("deployer"), TENANTS["deployer"]
    assert preview(deployer, tenant, PARAMETERS, packages)
    deploy(deployer, tenant, PARAMETERS, packages)
    assert preview(deployer, tenant, PARAMETERS, packages) == []
    deploy(deployer, tenant, {**PARAMETERS, "AlarmEmail": "other@example.com", "EventAge": "600"}, packages)
    # A deployer may train, too, to make sure that the deployment works.
    assert marless(deployer, "train", *SMALL, *ON["deployer"], "--run", "canary").code == 0
    printed = marless(deployer, "cloud", "policy", "deployer", "--tenant", tenant)
    assert json.loads("\n".join(printed.out)) == document("deployer", operator.region)
    operator.client("ecr").create_repository(repositoryName=f"marless/{tenant}")
    said = marless(deployer, "cloud", "teardown", *ON["deployer"], "--yes")
    assert (said.code, said.out[-1]) == (0, f"nothing of tenant {tenant} is left in account {ACCOUNT}, us-east-1")


@pytest.mark.parametrize("who", TENANTS)
def test_nobody_deploys_or_tears_down_another_tenant(having, deployed, packages, who):
    for tenant in {"a", "a-b"} - ({TENANTS[who]} if who == "deployer" else set()):
        with pytest.raises(StorageFault, match="lack the permission"):
            deploy(having(who), tenant, PARAMETERS, packages)
        with pytest.raises(StorageFault, match="lack the permission"):
            teardown(having(who), tenant)


def test_a_deployer_passes_its_roles_to_lambda_alone(having, packages):
    """As a service role CloudFormation would have all permissions of the role that it is given."""
    role = f"arn:aws:iam::{ACCOUNT}:role/marless-a-b-ActorRole-X"
    with pytest.raises(StorageFault, match="lack the permission"):
        deploy(having("deployer"), TENANTS["deployer"], PARAMETERS, packages, service_role=role)


GUARDED = ("iam:CreateRole", "iam:PutRolePolicy", "iam:DeleteRolePolicy")


def guarded(policy: dict[str, Any], boundary: str) -> dict[str, Any]:
    """A deployer's policy for roles with a path, held to a permissions boundary, as the documentation describes it."""
    text = json.dumps(policy).replace(":role/marless", ":role/company/marless")
    found = {statement["Sid"]: statement for statement in json.loads(text)["Statement"]}
    keep = found["KeepRoles"]
    keep["Action"] = [action for action in keep["Action"] if action not in GUARDED]
    found["MakeRoles"] = {
        "Sid": "MakeRoles",
        "Effect": "Allow",
        "Action": [*GUARDED, "iam:PutRolePermissionsBoundary"],
        "Resource": keep["Resource"],
        "Condition": {"StringEquals": {"iam:PermissionsBoundary": boundary}},
    }
    return {**policy, "Statement": [*found.values()]}


def test_deployer_with_boundary_makes_only_bounded_roles(operator, packages):
    tenant, iam = TENANTS["deployer"], operator.client("iam")
    everything = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
    arns = [
        iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(everything))["Policy"]["Arn"]
        for name in ("company", "other")
    ]
    deployer = principal(operator, "guarded", guarded(document("deployer", operator.region), arns[0]))
    path = {**PARAMETERS, "RolePath": "/company/"}
    for parameters in (path, {**path, "PermissionsBoundary": arns[1]}):
        with pytest.raises(DeploymentFault, match="iam:CreateRole on resource"):
            deploy(deployer, tenant, parameters, packages)
    deploy(deployer, tenant, {**path, "PermissionsBoundary": arns[0]}, packages)
    with pytest.raises(DeploymentFault, match="iam:PutRolePermissionsBoundary on resource"):
        deploy(deployer, tenant, {**path, "PermissionsBoundary": arns[1]}, packages)
    assert teardown(deployer, tenant) == []


TRAINING = {
    "FindTheDeployment": (TRAIN, "DescribeStacks"),
    "ReadQuotas": (TRAIN, "GetAccountSettings"),
    "InvokeFunctions": (TRAIN, "Invoke"),
    "ListObjects": (TRAIN, "ListBucket"),
    "KeepObjects": (TRAIN, "DeleteObject"),
    "KeepLedgers": (TRAIN, "GetItem"),
    "ReadLogs": (("cloud", "logs", *ON["trainer"], "--function", "actor"), "FilterLogEvents"),
}
"""For each statement a command that needs it, and what its refusal names."""


@pytest.mark.parametrize(("sid", "command", "lacking"), [(sid, *needed) for sid, needed in TRAINING.items()])
def test_a_trainer_without_one_statement_is_refused(having, deployed, marless, sid, command, lacking):
    named = () if command[0] == "cloud" else ("--run", sid.lower())
    said = marless(having("trainer", sid), *command, *named)
    assert said.code == 2 and lacking in said.err[-1]
    repeated = ["is tried again" in line for line in said.err[:-1]]  # an invocation is tried again before it is refused
    assert repeated == [True] * (sid == "InvokeFunctions")


DEPLOYING = {
    "KeepStack": "DescribeStacks",
    "TranslateTemplate": "CreateStack",
    "KeepBuckets": "CreateBucket",
    "KeepTable": "dynamodb:CreateTable",
    "KeepQueue": "sqs:CreateQueue",
    "KeepFunctions": "lambda:CreateFunction",
    "KeepSchedule": "events:PutRule",
    "KeepLogs": "logs:CreateLogGroup",
    "KeepAlarms": "cloudwatch:PutMetricAlarm",
    "KeepDashboard": "cloudwatch:PutDashboard",
    "KeepTopic": "sns:CreateTopic",
    "KeepBudget": "budgets:ModifyBudget",
    "KeepRoles": "iam:CreateRole",
    "PassRoles": "iam:PassRole",
}
"""For each statement that a deployment needs, what its refusal names."""


@pytest.fixture
def nothing_there(operator):
    yield
    assert teardown(operator, TENANTS["deployer"]) == []


@pytest.mark.parametrize(("sid", "lacking"), DEPLOYING.items())
def test_a_deployer_without_one_statement_cannot_deploy(having, nothing_there, packages, sid, lacking):
    with pytest.raises((DeploymentFault, StorageFault), match=lacking):
        deploy(having("deployer", sid), TENANTS["deployer"], PARAMETERS, packages)


def test_deployer_without_image_and_listing_statements_cannot_remove(having, operator, nothing_there):
    tenant = TENANTS["deployer"]
    operator.client("ecr").create_repository(repositoryName=f"marless/{tenant}")
    (left,) = teardown(having("deployer", "KeepImages"), tenant)
    assert "marless/a-b" in left and "DeleteRepository" in left
    with pytest.raises(StorageFault, match="lack the permission ListStacks"):
        teardown(having("deployer", "FindLeftovers"), tenant)


def test_every_statement_is_needed_by_a_command_here():
    """A denial is needed by none. `test_identity_policies.py` has the questions about it."""
    sids = {who: [of["Sid"] for of in document(who, "us-east-1")["Statement"]] for who in TENANTS}
    assert [*TRAINING] == [sid for sid in sids["trainer"] if sid not in ("InvokeVersionsOnly", "OnlyReadTheBudget")]
    assert {*DEPLOYING, "KeepImages", "FindLeftovers"} == {*sids["deployer"]}
