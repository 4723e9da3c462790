"""Prune a deployment to the needs of its runs and functions, in spite of kills. Only an administrator may."""

import hashlib
import json
import os
import zipfile
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from botocore.client import BaseClient
from principals import ACCOUNT, principal

from marless.cli.app import main
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.drive import run_manifest
from marless.coordinator.drive.run_manifest import RunManifest
from marless.coordinator.errors import UserError
from marless.coordinator.platform import Platform
from marless.functions.errors import StorageFault
from marless.functions.resources.settings import Resource
from marless.infra.aws.detached_ports import Deployed
from marless.infra.aws.function_settings import Settings
from marless.infra.deployment import Image, Packages, deploy, identity_policy
from marless.infra.deployment.resource_functions import PARAMETER, to_parameter
from marless_cloud.deployments_made import faults, made_deployments
from marless_cloud.unneeded import unneeded

TENANT, STACK = "pruned", "marless-pruned"
ZIPPED = ("actor", "evaluator", "coordinator", "resource")
FUNCTIONS = (*(f"{STACK}-{name}" for name in ("actor", "learner-image", "evaluator", "coordinator")), f"{STACK}_judge")
GONE = (f"/aws/lambda/{STACK}-learner", f"/marless/{STACK}/ray")
OTHERS = (f"/aws/lambda/{STACK}-too-actor", "/marless/marless-pruned-too/ray", f"/aws/lambda/{STACK}-actor")
CHANGES = ("DeleteFunction", "DeleteObject", "BatchDeleteImage", "DeleteLogGroup")
AT_ONCE = timedelta(0)


def program(folder, number):
    """The packages of a deployment, and their hashes by role."""
    for role in ZIPPED:
        with zipfile.ZipFile(folder / f"{role}.zip", "w") as archive:
            archive.writestr("README", f"{role} {number}")
    paths = {role: folder / f"{role}.zip" for role in ZIPPED}
    hashes = {role: hashlib.sha256(path.read_bytes()).hexdigest() for role, path in paths.items()}
    return Packages(paths, Image(folder, f"image{number}")), hashes


def push(cloud, number):
    """The learner's image, as the container engine would leave it in the registry."""
    layer = {"mediaType": "application/vnd.oci.image.layer.v1.tar", "size": 2**30, "digest": f"sha256:{number}" * 8}
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    text = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": layer, "layers": [layer]})
    cloud.client("ecr").put_image(repositoryName=f"marless/{TENANT}", imageManifest=text, imageTag=f"image{number}")


def begin(cloud, deployment, run):
    deployed = Deployed(Settings(deployment.bucket, deployment.table, TENANT), cloud)
    sent = {"config": RunConfig(), "identity": msgspec.Raw(b"{}"), "platform": Platform()}
    manifest = RunManifest(run=run, tenant=TENANT, code="", functions=dict(deployment.functions), **sent)
    run_manifest.write(deployed.outside(run).ledger, manifest)


@pytest.fixture(scope="module")
def deployed(operator, tmp_path_factory):
    """Deploy three times, and leave log groups. A run keeps the first deployment."""
    folder, resources = tmp_path_factory.mktemp("packages"), {"judge": Resource(serve="judges:grade")}
    operator.client("ecr").create_repository(repositoryName=f"marless/{TENANT}")
    hashes = {}
    for number in (1, 2, 3):
        packages, hashes[number] = program(folder, number)
        push(operator, number)
        parameters = {"Code": str(number), PARAMETER: to_parameter(resources)}
        deployment = deploy(operator, TENANT, parameters, packages)
        if number == 1:
            begin(operator, deployment, "old")
    for name in (*GONE, *OTHERS):
        operator.client("logs").create_log_group(logGroupName=name)
    return deployment, hashes


def held(cloud, deployment):
    """List names of things in the account."""
    listings = (
        ("lambda", "list_functions", {"FunctionVersion": "ALL"}, "Functions[].[FunctionName, Version]"),
        ("logs", "describe_log_groups", {}, "logGroups[].[logGroupName]"),
        ("ecr", "describe_images", {"repositoryName": f"marless/{TENANT}"}, "imageDetails[].imageTags"),
    )
    found = {
        (service, *sorted(name))
        for service, call, arguments, names in listings
        for name in cloud.client(service).get_paginator(call).paginate(**arguments).search(names)
    }
    bucket = f"marless-artifacts-{ACCOUNT}-{deployment.region}-{TENANT}"
    return found | {("s3", one["Key"]) for one in cloud.client("s3").list_objects_v2(Bucket=bucket)["Contents"]}


def can_go(hashes):
    return {
        *(("lambda", *sorted((name, "2"))) for name in FUNCTIONS),
        *(("s3", f"{role}/{digest}.zip") for role, digest in hashes[2].items()),
        ("ecr", "image2", "live-image2"),
        *(("logs", name) for name in GONE),
    }


def killed(cloud, deployment, changes):
    """Prune in a separate process that ends after so many changes. Return whether more changes were due."""
    if (child := os.fork()) == 0:
        call, count = BaseClient._make_api_call, 0

        def dying(client, operation, arguments):
            nonlocal count
            if operation in CHANGES and (count := count + 1) > changes:
                os._exit(9)
            return call(client, operation, arguments)

        BaseClient._make_api_call = dying
        for thing in unneeded(cloud, deployment, AT_ONCE):
            thing.delete()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_list_changes_nothing_and_prices_what_it_names(operator, deployed, shell, capfd):
    deployment, _ = deployed
    before = held(operator, deployment)
    key, secret, _ = operator.credentials
    shell.export(AWS_ENDPOINT_URL=operator.endpoint, AWS_DEFAULT_REGION=operator.region, NO_PROXY="*")
    shell.export(AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret)
    assert main(["cloud", "prune", "--tenant", TENANT, "--backend", "aws"]) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    # Packages and images of the last hour stay, as a deployment may be about to use them.
    assert {line[-1] for line in lines[1:-1]} == {*(f"{name}:2" for name in FUNCTIONS), *GONE}
    assert held(operator, deployment) == before
    (image,) = (thing for thing in unneeded(operator, deployment, AT_ONCE) if thing.kind == "image")
    # Its layer has a GiB, at $0.10 for a GB and month (Amazon ECR pricing).
    assert float(image.dollars) == pytest.approx(0.10 * image.bytes / 2**30)


def test_a_run_that_cannot_be_read_stops_everything(operator, deployed):
    deployment, _ = deployed
    deployed_ports = Deployed(Settings(deployment.bucket, deployment.table, TENANT), operator)
    ledger = deployed_ports.outside("newer").ledger
    ledger.commit(run_manifest.MANIFEST, b'{"from": "a newer program"}', 0)
    with pytest.raises(UserError, match="newer cannot be read, so its functions are unknown"):
        unneeded(operator, deployment, AT_ONCE)
    ledger.remove(run_manifest.MANIFEST)


def test_a_doctor_knows_each_deployment_and_what_differs_from_the_stack(operator, deployed):
    deployment = replace(deployed[0], memory_mb={**deployed[0].memory_mb, "actor": 512})
    made = {one.version: (one.code, one.is_present) for one in made_deployments(operator, deployment)}
    assert made == {"1": ("1", False), "2": ("2", False), "3": ("3", True)}
    assert [*faults(operator, deployment)] == ["the actor has 1769 MB, and its stack 512 MB"]


def test_an_administrator_may_prune_and_a_trainer_may_not(operator, deployed):
    deployment, hashes = deployed
    who = {
        name: principal(operator, name, json.loads(identity_policy(name, ACCOUNT, operator.region, TENANT)))
        for name in ("trainer", "deployer")
    }
    assert len(unneeded(who["deployer"], deployment, AT_ONCE)) == len(can_go(hashes))
    with pytest.raises(StorageFault, match="lack the permission"):
        unneeded(who["trainer"], deployment, AT_ONCE)


def test_a_command_that_is_killed_at_any_change_is_finished_by_the_same_command(operator, deployed):
    deployment, hashes = deployed
    before, expected = held(operator, deployment), can_go(hashes)
    assert expected < before
    gone = 0
    while killed(operator, deployment, 1):
        gone += 1
        assert before - held(operator, deployment) <= expected
        assert len(before - held(operator, deployment)) == gone
    assert before - held(operator, deployment) == expected
    assert gone == len(expected) - 1 and unneeded(operator, deployment, AT_ONCE) == []
