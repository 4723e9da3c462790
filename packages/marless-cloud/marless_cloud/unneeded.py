"""Finds unneeded versions, packages, images and log groups of a deployment.

The account is read afresh each time. So a command that was killed finds the rest when you type it again.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from marless.coordinator.drive import run_manifest, study_governor
from marless.coordinator.drive.run_manifest import STUDY
from marless.coordinator.errors import UserError, one_line
from marless.coordinator.pricing.prices import load_prices, priced_as
from marless.functions.encoding import Undecodable
from marless.infra.aws.clients import Cloud
from marless.infra.aws.detached_ports import Deployed
from marless.infra.aws.error_messages import storage_errors
from marless.infra.aws.function_settings import ASKABLE, Settings
from marless.infra.aws.resource_settings import ASKABLE_FUNCTIONS
from marless.infra.deployment import Deployment
from marless.infra.deployment.package_upload import LIVE_TAG
from marless.infra.deployment.stack import Stacks, artifacts_bucket, function_names, repository, resource_function

_LATEST = "$LATEST"
_ARCHIVE = re.compile(r"[a-z0-9_]+/([0-9a-f]{64})\.zip")
_GB = 2**30
# Lambda bills no stored code. It counts in a quota of the account (Lambda developer guide, "Lambda quotas").
_FREE = Decimal(0)


class Unneeded(NamedTuple):
    """Something that can go: its kind, its name, its size in bytes, its price in dollars a month.

    `delete` may be called again after a lost answer. It raises `StorageFault` if AWS refuses.
    """

    kind: str
    name: str
    bytes: int
    dollars: Decimal
    delete: Callable[[], None]


class _Version(NamedTuple):
    """A version of a function. `config` is its configuration in a reply of API_ListVersionsByFunction."""

    function: str
    number: str
    config: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{self.function}:{self.number}"


def unneeded(cloud: Cloud, deployment: Deployment, settled: timedelta = timedelta(hours=1)) -> list[Unneeded]:
    """Return the unneeded things, the functions' versions first.

    A deployment uploads its packages before its functions exist. So packages and images younger than `settled` stay.
    Raises `StorageFault` if AWS refuses a request, and `UserError` during a deployment and for a run that cannot be
    read.
    """
    with storage_errors("look through", f"stack {deployment.stack}"):
        stack = Stacks(cloud).find(deployment.stack)
        if stack is None or stack.busy:
            raise UserError(f"stack {deployment.stack} changes at the moment. Wait, and type the command again")
        account = _Account(cloud, deployment, datetime.now(UTC) - settled)
        versions = list(account.versions())
        needed = {_key(arn) for arn in deployment.functions.values()} | account.versions_of_runs()
        staying = _needed(versions, needed, account.live(versions))
        old = [account.old_version(version) for version in versions if version not in staying]
        return [*old, *account.archives(staying), *account.images(staying), *account.log_groups(versions)]


def _needed(versions: Sequence[_Version], names: set[str], live: Mapping[str, int]) -> list[_Version]:
    """The needed versions, and later versions, because a deployment may have just published them."""

    def _matching(names: set[str]) -> list[_Version]:
        return [
            version
            for version in versions
            if version.number == _LATEST or version.key in names or int(version.number) >= live.get(version.function, 0)
        ]

    # A worker's version names the versions of the functions that its tasks may ask.
    return _matching(names | {key for version in _matching(names) for key in _askable(version)})


def _askable(version: _Version) -> Iterator[str]:
    text = version.config.get("Environment", {}).get("Variables", {}).get(ASKABLE, "")
    if text:
        yield from (_key(function.function) for function in ASKABLE_FUNCTIONS.decode(text.encode()).values())


def _key(arn: str) -> str:
    """``NAME:VERSION`` of a function's qualified ARN."""
    return ":".join(arn.split(":")[-2:])


class _Account:
    """Looks at each kind of thing that a deployment keeps."""

    def __init__(self, cloud: Cloud, deployment: Deployment, before: datetime) -> None:
        self._cloud, self._deployment, self._before = cloud, deployment, before
        self._lambda, self._prices = cloud.client("lambda"), load_prices(priced_as(deployment.region))

    def versions(self) -> Iterator[_Version]:
        """All versions of the stack's functions."""
        stack = self._deployment.stack
        names, resources = function_names(stack), resource_function(stack, "")
        for name in self._lambda.get_paginator("list_functions").paginate().search("Functions[].FunctionName"):
            if name and (name in names or name.startswith(resources)):
                pages = self._lambda.get_paginator("list_versions_by_function").paginate(FunctionName=name)
                for config in pages.search("Versions[]"):
                    yield _Version(name, config["Version"], config)

    def live(self, versions: Sequence[_Version]) -> dict[str, int]:
        """The least version of each function that an alias names."""
        live: dict[str, int] = {}
        for name in {version.function for version in versions}:
            pages = self._lambda.get_paginator("list_aliases").paginate(FunctionName=name)
            for alias in pages.search("Aliases[]"):
                weights = (alias.get("RoutingConfig") or {}).get("AdditionalVersionWeights", {})
                numbers = map(int, (alias["FunctionVersion"], *weights))
                live[name] = min(*numbers, live.get(name, 1 << 62))
        return live

    def versions_of_runs(self) -> set[str]:
        """The versions that manifests of the tenant's runs and studies name."""
        settings = Settings(self._deployment.bucket, self._deployment.table, self._deployment.tenant)
        deployed, prefix, needed = Deployed(settings, self._cloud), settings.ledger(""), set[str]()
        scan = self._cloud.client("dynamodb").get_paginator("scan").paginate
        names = {"ExpressionAttributeNames": {"#scope": "scope"}, "ProjectionExpression": "#scope"}
        pages = scan(TableName=settings.table, ConsistentRead=True, **names)
        scopes = {item["scope"]["S"] for page in pages for item in page["Items"]}
        for run in sorted(scope.removeprefix(prefix) for scope in scopes if scope.startswith(prefix)):
            try:
                needed |= {_key(arn) for arn in _functions_of(deployed, run)}
            except Undecodable as error:
                raise UserError(
                    f"{run} cannot be read, so its functions are unknown: {one_line(error)}. Use the program that began"
                    " the run, or remove the run"
                ) from error
        return needed

    def old_version(self, version: _Version) -> Unneeded:
        """A version that can go."""

        def _delete() -> None:
            with (
                storage_errors("delete", version.key),
                suppress(self._lambda.exceptions.ResourceNotFoundException),
            ):
                self._lambda.delete_function(FunctionName=version.function, Qualifier=version.number)

        return Unneeded("version", version.key, version.config["CodeSize"], _FREE, _delete)

    def archives(self, staying: Sequence[_Version]) -> Iterator[Unneeded]:
        """Packages in the artifacts' bucket that no needed version was made of."""
        deployment, client = self._deployment, self._cloud.client("s3")
        owner = {"ExpectedBucketOwner": deployment.account}
        bucket = artifacts_bucket(deployment.account, deployment.region, deployment.tenant)
        hashes = {
            base64.b64decode(version.config["CodeSha256"]).hex()
            for version in staying
            if version.config.get("PackageType", "Zip") == "Zip"
        }

        def _delete(key: str) -> None:
            with storage_errors("delete", f"s3://{bucket}/{key}"):
                client.delete_object(Bucket=bucket, Key=key, **owner)

        with suppress(client.exceptions.NoSuchBucket):
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, **owner):
                for entry in page.get("Contents", ()):
                    match, price = _ARCHIVE.fullmatch(entry["Key"]), self._prices.s3.standard.gb_month
                    if match and match[1] not in hashes and entry["LastModified"] < self._before:
                        yield _priced("archive", entry["Key"], entry["Size"], price, partial(_delete, entry["Key"]))

    def images(self, staying: Sequence[_Version]) -> Iterator[Unneeded]:
        """Images of the learner that no needed version runs. They share layers, so the sizes are the most they free."""
        registry, name = self._cloud.client("ecr"), repository(self._deployment.tenant)
        tags = {self._tag(version) for version in staying if version.config.get("PackageType") == "Image"}

        def _delete(digest: str) -> None:
            with storage_errors("delete", f"image {digest}"):
                registry.batch_delete_image(repositoryName=name, imageIds=[{"imageDigest": digest}])

        with suppress(registry.exceptions.RepositoryNotFoundException):
            pages = registry.get_paginator("describe_images").paginate(repositoryName=name)
            for image in pages.search("imageDetails[]"):
                tags_of_image = {tag.removeprefix(LIVE_TAG) for tag in image.get("imageTags", ())}
                if image and not tags_of_image & tags and image["imagePushedAt"] < self._before:
                    label = f"{name}:{min(tags_of_image)}" if tags_of_image else f"{name}@{image['imageDigest']}"
                    price, delete_it = self._prices.ecr.gb_month, partial(_delete, image["imageDigest"])
                    yield _priced("image", label, image["imageSizeInBytes"], price, delete_it)

    def log_groups(self, versions: Sequence[_Version]) -> Iterator[Unneeded]:
        """Log groups of functions that are gone, except log groups of the stack."""
        stack, client = self._deployment.stack, self._cloud.client("logs")
        types = ("AWS::Logs::LogGroup", "AWS::Lambda::Function")
        parts = {part.id for part in Stacks(self._cloud).parts(stack) if part.type in types}
        names = parts | {version.function for version in versions}
        by_lambda = {f"/aws/lambda/{name}" for name in function_names(stack)}

        def _delete(name: str) -> None:
            with storage_errors("delete", name), suppress(client.exceptions.ResourceNotFoundException):
                client.delete_log_group(logGroupName=name)

        for prefix in (f"/marless/{stack}/", f"/aws/lambda/{stack}-"):
            pages = client.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix)
            for group in pages.search("logGroups[]"):
                name = group["logGroupName"]
                is_ours = name in by_lambda or name.startswith(f"/marless/{stack}/")
                if is_ours and not names & {name, name.removeprefix("/aws/lambda/")}:
                    price = self._prices.cloudwatch.logs_gb_month
                    yield _priced("log group", name, group.get("storedBytes", 0), price, partial(_delete, name))

    def _tag(self, version: _Version) -> str:
        code = self._lambda.get_function(FunctionName=version.function, Qualifier=version.number)["Code"]
        return str(code["ImageUri"]).rpartition(":")[2]


def _functions_of(deployed: Deployed, run: str) -> Iterator[str]:
    """The qualified functions that a run or a study names. Raises `Undecodable`."""
    if run.startswith(STUDY):
        if plan := study_governor.read_plan(deployed, run.removeprefix(STUDY)):
            yield plan.coordinator
    elif manifest := run_manifest.read(deployed.outside(run).ledger):
        yield from manifest.functions.values()


def _priced(kind: str, name: str, size: int, gb_month: Decimal, delete: Callable[[], None]) -> Unneeded:
    return Unneeded(kind, name, size, gb_month * size / _GB, delete)
