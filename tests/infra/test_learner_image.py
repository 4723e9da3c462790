"""The learner's image reaches a registry. A script replaces the container engine."""

import json
import os
import sys

import pytest
from stand_in import moto, standing

from marless.infra.deployment import DeploymentFault, Image, Packages
from marless.infra.deployment.package_upload import keep_image, upload
from marless.infra.packaging import containers
from marless.infra.packaging.containers import ContainerFault

ACCOUNT = "123456789012"
# Notes how it was called. Refuses the flags in REFUSED, like docker's command line. Fails the command in FAILS.
ENGINE = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["CALLS"], "a") as file:
    print(json.dumps([*sys.argv[1:], sys.stdin.read() if "--password-stdin" in sys.argv else ""]), file=file)
for name in filter(None, os.environ.get("REFUSED", "").split()):
    if any(word.startswith(name) for word in sys.argv):
        sys.exit(f"unknown flag: {{name}}\\nSee 'docker build --help'.")
if sys.argv[1] == os.environ.get("FAILS"):
    sys.exit("no room left")
"""


@pytest.fixture(scope="module")
def cloud():
    with standing(moto()) as service:
        yield service.cloud


@pytest.fixture
def engine(tmp_path, shell):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/docker"
    program.write_text(ENGINE)
    program.chmod(0o755)
    shell.export(PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    shell.export(CALLS=str(tmp_path / "calls"))

    def calls():
        return [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]

    return calls


def of_team(cloud, packages, say=lambda line: None):
    return upload(cloud, ACCOUNT, "us-east-1", "team", packages, say)


def manifest(layer):
    about = {"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": 1, "digest": f"sha256:{layer}"}
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    return json.dumps({"schemaVersion": 2, "mediaType": kind, "config": about, "layers": [about]})


def test_image_is_built_and_pushed_once_and_kept(cloud, engine, tmp_path):
    registry, said = cloud.client("ecr"), []
    packages = Packages(image=Image(tmp_path, "0123abcd"))
    address = of_team(cloud, packages, said.append)["learner"]
    assert address == f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/marless/team:0123abcd"
    assert said == ["building the learner's image with docker", "pushing the learner's image"]
    asked, build, login, push = engine()
    assert asked[0] == "ps"
    assert build[-2:] == [str(tmp_path), ""]
    assert {"build", "--platform=linux/arm64", "--provenance=false", f"--tag={address}"} < set(build)
    assert login[:-1] == ["login", "--username", "AWS", "--password-stdin", address.partition("/")[0]]
    assert login[-1]  # not among the arguments, which other users see
    assert push == ["push", "--quiet", address, ""]

    (kept,) = registry.describe_repositories(repositoryNames=["marless/team"])["repositories"]
    assert kept["imageScanningConfiguration"] == {"scanOnPush": True}
    assert kept["imageTagMutability"] == "IMMUTABLE"

    # The image arrives, which this engine leaves out.
    registry.put_image(repositoryName="marless/team", imageManifest=manifest("a" * 64), imageTag="0123abcd")
    said.clear()
    assert of_team(cloud, packages, said.append)["learner"] == address
    assert (said, len(engine())) == ([], 4)
    for _ in range(2):
        keep_image(cloud, "team", address)
    (image,) = registry.describe_images(repositoryName="marless/team")["imageDetails"]
    assert set(image["imageTags"]) == {"0123abcd", "live-0123abcd"}


def test_images_of_deployed_versions_never_expire(cloud, engine, tmp_path):
    of_team(cloud, Packages(image=Image(tmp_path, "4567")))
    text = cloud.client("ecr").get_lifecycle_policy(repositoryName="marless/team")["lifecyclePolicyText"]
    spared, expired = sorted(json.loads(text)["rules"], key=lambda rule: rule["rulePriority"])
    assert (spared["selection"]["tagStatus"], spared["selection"]["tagPrefixList"]) == ("tagged", ["live-"])
    # A repository holds at most 100,000 images (Amazon ECR user guide, "Amazon ECR service quotas").
    assert (spared["selection"]["countType"], spared["selection"]["countNumber"]) == ("imageCountMoreThan", 100_000)
    assert expired["selection"]["tagStatus"] == "any"


def test_engine_without_provenance_builds_without_it(engine, tmp_path, shell):
    shell.export(REFUSED="--provenance")
    containers.build("docker", tmp_path, "name:tag")
    first, second = engine()
    assert set(first) - set(second) == {"--provenance=false"}


def test_flag_needed_by_every_try_is_reported(engine, tmp_path, shell):
    shell.export(REFUSED="--provenance --platform")
    with pytest.raises(ContainerFault, match=r"^docker build failed: See 'docker build --help'\.$"):
        containers.build("docker", tmp_path, "name:tag")


def test_a_push_that_fails_is_one_line(cloud, engine, tmp_path, shell):
    shell.export(FAILS="push")
    with pytest.raises(DeploymentFault, match=r"^docker push failed: no room left$"):
        of_team(cloud, Packages(image=Image(tmp_path, "89ab")))


def test_without_an_engine_there_is_no_image(cloud, tmp_path, shell):
    shell.export(PATH=str(tmp_path))
    with pytest.raises(ContainerFault, match=r"^none of docker, podman, finch is installed; one of them builds"):
        of_team(cloud, Packages(image=Image(tmp_path, "cdef")))
