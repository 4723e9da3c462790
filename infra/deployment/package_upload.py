"""Uploads the functions' packages to a bucket, and a learner that is a container image to a registry."""

import base64
import hashlib
import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from marless.infra.aws.clients import Cloud
from marless.infra.deployment.stack import RESOURCE, ROLES, DeploymentFault, Say, artifacts_bucket, repository
from marless.infra.packaging import containers

# Images of failed deployments expire. Images of functions have a second tag and stay, because a version keeps using its
# image. ECR's rule: "An image that matches the tagging requirements of a rule cannot be expired by a rule with a lower
# priority". Source: Amazon ECR user guide, "Automate the cleanup of images by using lifecycle policies in Amazon ECR".
LIVE_TAG = "live-"
_LIFECYCLE = (Path(__file__).parent / "policies" / "images.json").read_text("utf-8")


@dataclass(frozen=True)
class Image:
    """A container image to build from the folder `context`. `tag` is a digest of all its inputs."""

    context: Path
    tag: str


@dataclass(frozen=True)
class Packages:
    """The files of a deployment: zip archives by role, one for all external resources, and the learner's image if it is
    one.

    Roles without a package need no upload: in an emulated account the program runs from its folders.
    """

    archives: Mapping[str, Path] = field(default_factory=dict)
    image: Image | None = None


def addresses(cloud: Cloud, account: str, region: str, tenant: str, packages: Packages) -> Mapping[str, str]:
    """Return the addresses where `upload` puts the packages, by role, without sending anything."""
    bucket = artifacts_bucket(account, region, tenant)
    code = _unpacked(bucket)
    code |= {role: f"s3://{bucket}/{_key(role, archive.read_bytes())}" for role, archive in packages.archives.items()}
    if packages.image:
        host = cloud.client("ecr").meta.endpoint_url.partition("api.")[2].partition(f".{region}.")
        registry = f"{account}.dkr.ecr.{region}.{host[2] or 'amazonaws.com'}"
        code["learner"] = f"{registry}/{repository(tenant)}:{packages.image.tag}"
    return code


def upload(cloud: Cloud, account: str, region: str, tenant: str, packages: Packages, say: Say) -> Mapping[str, str]:
    """Upload packages that are not there yet. Returns their addresses by role.

    Raises `ClientError`, `ContainerFault` and `DeploymentFault`.
    """
    bucket = artifacts_bucket(account, region, tenant)
    code = _unpacked(bucket)
    if packages.archives:
        _make_bucket(cloud, bucket, account, region)
    for role, archive in packages.archives.items():
        code[role] = f"s3://{bucket}/{_upload(cloud, bucket, account, role, archive, say)}"
    if packages.image:
        code["learner"] = _push(cloud, tenant, packages.image, say)
    return code


def upload_template(cloud: Cloud, account: str, region: str, tenant: str, template: str) -> str:
    """Upload the template, and return its address. Raises `ClientError`."""
    bucket, body, client = artifacts_bucket(account, region, tenant), template.encode(), cloud.client("s3")
    _make_bucket(cloud, bucket, account, region)
    key = f"template/{hashlib.sha256(body).hexdigest()}.yaml"
    client.put_object(Bucket=bucket, Key=key, Body=body, ExpectedBucketOwner=account)
    return f"{client.meta.endpoint_url}/{bucket}/{key}"


def _unpacked(bucket: str) -> dict[str, str]:
    return {role: f"s3://{bucket}/{role}.zip" for role in (*ROLES, RESOURCE)}


def keep_image(cloud: Cloud, tenant: str, address: str) -> None:
    """Keep the image at `address` from expiring (Amazon ECR user guide, "Retagging an image"). Raises `ClientError`.

    Does nothing for an address in S3.
    """
    if address.startswith("s3://"):
        return
    registry, name, tag = cloud.client("ecr"), repository(tenant), address.rpartition(":")[2]
    (image,) = registry.batch_get_image(repositoryName=name, imageIds=[{"imageTag": tag}])["images"]
    image = {key: image[key] for key in ("imageManifest", "imageManifestMediaType") if key in image}
    already_exists = registry.exceptions.ImageAlreadyExistsException, registry.exceptions.ImageTagAlreadyExistsException
    with suppress(*already_exists):
        registry.put_image(repositoryName=name, imageTag=f"{LIVE_TAG}{tag}", **image)


def _make_bucket(cloud: Cloud, bucket: str, account: str, region: str) -> None:
    client = cloud.client("s3")
    # S3 refuses its oldest region as a constraint (API_CreateBucket, LocationConstraint).
    location = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    with suppress(client.exceptions.BucketAlreadyOwnedByYou):
        client.create_bucket(Bucket=bucket, **location)
    # Public access is blocked to protect the packages.
    no_public_access = dict.fromkeys(
        ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True
    )
    client.put_public_access_block(
        Bucket=bucket, ExpectedBucketOwner=account, PublicAccessBlockConfiguration=no_public_access
    )
    # No lifecycle: an update that fails goes back to the packages before, however old they are.
    policy = {"Version": "2012-10-17", "Statement": [_only_over_tls(client.meta.partition, bucket)]}
    client.put_bucket_policy(Bucket=bucket, ExpectedBucketOwner=account, Policy=json.dumps(policy))


def _only_over_tls(partition: str, bucket: str) -> dict[str, Any]:
    # A statement like the template's for the runs' bucket.
    everything = f"arn:{partition}:s3:::{bucket}"
    return {
        "Sid": "OnlyOverTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [everything, f"{everything}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def _upload(cloud: Cloud, bucket: str, account: str, role: str, archive: Path, say: Say) -> str:
    body, client = archive.read_bytes(), cloud.client("s3")
    key = _key(role, body)
    try:
        client.head_object(Bucket=bucket, Key=key, ExpectedBucketOwner=account)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchKey", "NotFound"):
            raise
        say(f"uploading {role}, {len(body) / 1e6:.0f} MB")
        client.put_object(Bucket=bucket, Key=key, Body=body, ExpectedBucketOwner=account)
    return key


def _key(role: str, archive: bytes) -> str:
    return f"{role}/{hashlib.sha256(archive).hexdigest()}.zip"


def _push(cloud: Cloud, tenant: str, image: Image, say: Say) -> str:
    registry, name = cloud.client("ecr"), repository(tenant)
    uri = _make_repository(registry, name)
    address = f"{uri}:{image.tag}"
    with suppress(registry.exceptions.ImageNotFoundException):
        registry.describe_images(repositoryName=name, imageIds=[{"imageTag": image.tag}])
        return address
    engine = containers.engine()
    say(f"building the learner's image with {engine}")
    containers.build(engine, image.context, address)
    authorization = registry.get_authorization_token()["authorizationData"][0]
    user, _, password = base64.b64decode(authorization["authorizationToken"]).decode().partition(":")
    say("pushing the learner's image")
    _run(engine, "login", "--username", user, "--password-stdin", uri.partition("/")[0], input_text=password)
    _run(engine, "push", "--quiet", address)
    return address


def _make_repository(registry: Any, name: str) -> str:
    try:
        repository = registry.create_repository(repositoryName=name)["repository"]
    except registry.exceptions.RepositoryAlreadyExistsException:
        repository = registry.describe_repositories(repositoryNames=[name])["repositories"][0]
    registry.put_image_tag_mutability(repositoryName=name, imageTagMutability="IMMUTABLE")
    registry.put_image_scanning_configuration(repositoryName=name, imageScanningConfiguration={"scanOnPush": True})
    registry.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=_LIFECYCLE)
    return str(repository["repositoryUri"])


def _run(engine: str, *arguments: str, input_text: str = "") -> str:
    """Return the engine's output. `input_text` goes to its standard input, which process lists do not show."""
    process = subprocess.run(
        [engine, *arguments], input=input_text, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if process.returncode:
        why = (process.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DeploymentFault(f"{engine} {arguments[0]} failed: {why}")
    return process.stdout.strip()
