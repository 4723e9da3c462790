"""The user's AWS account. The platform itself measures durations."""

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from marless.backends.base import Connection, DeployRequest, LocatedDeployment, Readiness, RemoteBackend
from marless.coordinator.errors import UserError

# Commands for runs on this machine do not wait for the AWS SDK.
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from marless.functions.resources.settings import Resource
    from marless.infra.aws.clients import Cloud
    from marless.infra.aws.deployment_ref import DeploymentRef
    from marless.infra.aws.detached_ports import Deployed
    from marless.infra.deployment import Change, Deployment, Packages

# Lambda keeps events for minutes where other runs, or other users of the account, take the room.
_GRACE_S = 300.0
# An account keeps so much concurrency for functions that reserve none (Lambda developer guide, "Configuring reserved
# concurrency for a function").
_UNRESERVED = 100
_WORKERS = 3


class AwsBackend(RemoteBackend):
    """Functions are Lambda functions, objects are in S3, the ledger is in DynamoDB."""

    name = "aws"
    summary = "your AWS account"
    runs_here = False
    extra = "aws"
    latency_name = "aws"
    survives = "this machine may be switched off"

    def open(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: "DeploymentRef | None" = None
    ) -> Connection:
        """See `Backend.open`."""
        from marless.cloud.deployments import connect
        from marless.infra.aws.clients import Cloud

        assert deployment_ref is not None
        connection = connect(
            Cloud(deployment_ref.region), deployment_ref, grace_s=_GRACE_S, cpu_scaling=False, latency=self.latency_name
        )
        return connection.for_reading() if read_only else connection

    def cloud(self, region: str | None) -> "Cloud":
        """See `RemoteBackend.cloud`."""
        from marless.cloud.accounts import region_of
        from marless.infra.aws.clients import Cloud

        return Cloud(region_of(region))

    def prepare(self, run: str, tenant: str, region: str | None) -> LocatedDeployment:
        """See `RemoteBackend.prepare`. Another version's deployment is refused, because renewing takes minutes."""
        from marless.cloud.deployments import deploy_command, locate
        from marless.reports import provenance

        deployment = locate(self, run, tenant, region)
        if deployment.code != provenance.code_sha256():
            again = deploy_command(self.name, tenant, region)
            raise UserError(f"the deployed functions are of another version of marless; renew them with: {again}")
        return deployment

    def deployed(self, folder: Path, deployment_ref: "DeploymentRef") -> "Deployed":
        """See `RemoteBackend.deployed`."""
        from marless.cloud.deployments import deployed_in
        from marless.infra.aws.clients import Cloud

        return deployed_in(Cloud(deployment_ref.region), deployment_ref)

    def deploy(self, request: DeployRequest) -> "Deployment":
        """Looks for all that can be known to be wrong before anything is made."""
        from marless.cloud import deploy_messages
        from marless.cloud.accounts import caller, region_of
        from marless.cloud.deployments import account_concurrency
        from marless.cloud.packing import pack_functions
        from marless.cloud.stack_parameters import merged_parameters
        from marless.infra.aws.clients import Cloud
        from marless.infra.deployment import deploy, describe, stack_name
        from marless.infra.deployment.resource_functions import PARAMETER, of_parameter
        from marless.infra.packaging import containers
        from marless.infra.packaging.package_build import torch_users_among

        region = region_of(request.region)
        cloud, stack = Cloud(region), stack_name(request.tenant)
        who = caller(cloud)
        torch = torch_users_among(request.plugins)
        before, free = describe(cloud, stack), account_concurrency(cloud)
        parameters = merged_parameters(cloud, request.tenant, request.parameters, request.resources)
        resources = of_parameter(parameters[PARAMETER])
        _check_concurrency(int(parameters.get("WorkerConcurrency", 0)), resources, before, free)
        for text in deploy_messages.before(who, region, stack, before, parameters, free, torch).splitlines():
            request.report(text)
        if torch.names:
            containers.engine()
        request.confirm("update it?" if before else "create it?")
        with pack_functions(request.plugins, torch, resources, request.report) as packages:
            request.report("the first time this takes some minutes" if before is None else "this takes some minutes")
            return deploy(
                cloud,
                request.tenant,
                parameters,
                packages,
                tags=request.tags,
                service_role=request.service_role,
                say=request.report,
            )

    def preview(self, request: DeployRequest) -> "Sequence[Change]":
        """See `RemoteBackend.preview`. It builds the packages, because their addresses are part of the template."""
        from marless.infra.deployment import preview

        with _deployment_inputs(request) as (cloud, parameters, packages):
            return preview(cloud, request.tenant, parameters, packages, request.tags, request.service_role)

    def template(self, request: DeployRequest) -> str:
        """See `RemoteBackend.template`."""
        from marless.infra.deployment import filled_in

        with _deployment_inputs(request) as (cloud, parameters, packages):
            return filled_in(cloud, request.tenant, parameters, packages, request.report)

    def teardown(self, tenant: str, region: str | None, remove: "Callable[[Cloud, str], int]") -> int:
        """See `RemoteBackend.teardown`."""
        from marless.cloud.accounts import caller, region_of
        from marless.infra.aws.clients import Cloud

        region_name = region_of(region)
        cloud = Cloud(region_name)
        return remove(cloud, f"account {caller(cloud).account}, {region_name}")

    def readiness(self) -> Readiness:
        """See `Backend.readiness`."""
        parts = [self.packages()]
        if parts[0].ready:
            from marless.cloud.readiness import aws_parts

            parts += aws_parts()
        return Readiness(ready=all(part.ready for part in parts if part.needed), what=self.summary, parts=tuple(parts))


@contextmanager
def _deployment_inputs(request: DeployRequest) -> "Iterator[tuple[Cloud, dict[str, str], Packages]]":
    from marless.cloud.accounts import region_of
    from marless.cloud.packing import pack_functions
    from marless.cloud.stack_parameters import merged_parameters
    from marless.infra.aws.clients import Cloud
    from marless.infra.deployment.resource_functions import PARAMETER, of_parameter
    from marless.infra.packaging.package_build import torch_users_among

    cloud = Cloud(region_of(request.region))
    parameters = merged_parameters(cloud, request.tenant, request.parameters, request.resources)
    resources, torch = of_parameter(parameters[PARAMETER]), torch_users_among(request.plugins)
    with pack_functions(request.plugins, torch, resources, request.report) as packages:
        yield cloud, parameters, packages


def _check_concurrency(
    concurrency: int, resources: "Mapping[str, Resource]", before: "Deployment | None", free: int
) -> None:
    from marless.cloud.resource_options import require_room

    reserved_now = _WORKERS * (before.concurrency or 0) if before else 0
    require_room(resources, before, free + reserved_now - _WORKERS * concurrency, _UNRESERVED)
    free += sum(each.slots for each in before.resources.values()) if before else 0
    free -= sum(each.slots for each in resources.values())
    most = max(0, (free + reserved_now - _UNRESERVED) // _WORKERS)
    if concurrency > most:
        raise UserError(
            f"--concurrency {concurrency} reserves {_WORKERS * concurrency:,} functions and leaves less than"
            f" {_UNRESERVED} to the others of this account; the most is {most}, or ask for more under"
            " Service Quotas, AWS Lambda"
        )


BACKEND = AwsBackend()
