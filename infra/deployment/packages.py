"""Uploads the functions' packages to a bucket and the learner's image to a registry."""

import base64
import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from botocore.exceptions import ClientError

from infra.aws.clients import Cloud
from infra.deployment.stack import ROLES, DeploymentFault, Say, artifacts_bucket, repository
from infra.packaging import containers


@dataclass(frozen=True)
class Packages:
    """The files of a deployment: zip archives by role, and the local name of the learner's image.

    Roles without an archive are not uploaded: in an emulated account the program runs from its folders.
    """

    archives: Mapping[str, Path] = field(default_factory=dict)
    image: str = ""


@dataclass(frozen=True)
class UploadedPackages:
    """The addresses of the packages by role, and the template's parameters for the image."""

    code: Mapping[str, str]
    parameters: Mapping[str, str]


def upload(cloud: Cloud, account: str, region: str, tenant: str, packages: Packages, say: Say) -> UploadedPackages:
    """Uploads packages that are not there yet; raises `ClientError`, `ContainerFault` and `DeploymentFault`."""
    bucket = artifacts_bucket(account, region, tenant)
    code = {role: f"s3://{bucket}/{role}.zip" for role in ROLES}
    if packages.archives:
        _make_bucket(cloud, bucket, account, region)
    for role, archive in packages.archives.items():
        code[role] = f"s3://{bucket}/{_upload(cloud, bucket, account, role, archive, say)}"
    image = {"LearnerImage": _push(cloud, tenant, packages.image, say)} if packages.image else {}
    return UploadedPackages(code, image)


def _make_bucket(cloud: Cloud, bucket: str, account: str, region: str) -> None:
    client = cloud.client("s3")
    # S3 refuses its oldest region as a constraint (API_CreateBucket, LocationConstraint).
    location = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    try:
        client.create_bucket(Bucket=bucket, **location)
    except client.exceptions.BucketAlreadyOwnedByYou:
        return
    # Public access is blocked to protect the packages.
    closed = dict.fromkeys(("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True)
    client.put_public_access_block(Bucket=bucket, ExpectedBucketOwner=account, PublicAccessBlockConfiguration=closed)


def _upload(cloud: Cloud, bucket: str, account: str, role: str, archive: Path, say: Say) -> str:
    """Uploads the archive unless it exists; returns its key, which holds a hash of its bytes."""
    body, client = archive.read_bytes(), cloud.client("s3")
    key = f"{role}/{hashlib.sha256(body).hexdigest()}.zip"
    try:
        client.head_object(Bucket=bucket, Key=key, ExpectedBucketOwner=account)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchKey", "NotFound"):
            raise
        say(f"uploading {role}, {len(body) / 1e6:.0f} MB")
        client.put_object(Bucket=bucket, Key=key, Body=body, ExpectedBucketOwner=account)
    return key


def _push(cloud: Cloud, tenant: str, image: str, say: Say) -> str:
    """Pushes the image and returns its address, whose tag is a hash of its content."""
    registry, name, engine = cloud.client("ecr"), repository(tenant), containers.engine()
    try:
        made = registry.create_repository(repositoryName=name)["repository"]
    except registry.exceptions.RepositoryAlreadyExistsException:
        made = registry.describe_repositories(repositoryNames=[name])["repositories"][0]
    identity = _run(engine, "image", "inspect", "--format", "{{.Id}}", image).rpartition(":")[2]
    address = f"{made['repositoryUri']}:{identity[:24]}"
    granted = registry.get_authorization_token()["authorizationData"][0]
    user, _, password = base64.b64decode(granted["authorizationToken"]).decode().partition(":")
    host = made["repositoryUri"].partition("/")[0]
    say("pushing the learner's image")
    _run(engine, "login", "--username", user, "--password-stdin", host, input_text=password)
    _run(engine, "tag", image, address)
    _run(engine, "push", "--quiet", address)
    return address


def _run(engine: str, *arguments: str, input_text: str = "") -> str:
    """Returns the engine's output; `input_text` goes to its standard input, which process lists do not show."""
    ended = subprocess.run([engine, *arguments], input=input_text, capture_output=True, text=True, check=False)
    if ended.returncode:
        why = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DeploymentFault(f"{engine} {arguments[0]} failed: {why}")
    return ended.stdout.strip()
