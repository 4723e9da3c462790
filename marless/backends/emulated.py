"""The emulated AWS account next to the run's folder. Durations are measured on this machine's cores."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from marless.backends.base import Connection, DeployRequest, LocatedDeployment, Readiness, RemoteBackend
from marless.coordinator.errors import FINISHED, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from marless.infra.aws.clients import Cloud
    from marless.infra.aws.deployment_ref import DeploymentRef
    from marless.infra.aws.detached_ports import Deployed
    from marless.infra.deployment import Change, Deployment

_GRACE_S = 2.0


class EmulatedBackend(RemoteBackend):
    """Moto, the deployed template and the real Lambda runtime client, on this machine."""

    name = "emulated"
    summary = "AWS, emulated on this machine"
    extra = "emulated"
    latency_name = "emulated"
    survives = "as long as the emulated account runs"

    def open(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: "DeploymentRef | None" = None
    ) -> Connection:
        """See `Backend.open`."""
        from marless.cloud.deployments import connect
        from marless.cloud.emulated_account import account_of, cloud_of

        assert deployment_ref is not None
        cloud = cloud_of(account_of(folder))
        connection = connect(cloud, deployment_ref, grace_s=_GRACE_S, cpu_scaling=True, latency=self.latency_name)
        return connection.for_reading() if read_only else connection

    def cloud(self, region: str | None) -> "Cloud":
        """See `RemoteBackend.cloud`."""
        from marless.cloud.emulated_account import account_folder, cloud_of

        return cloud_of(account_folder())

    def prepare(self, run: str, tenant: str, region: str | None) -> LocatedDeployment:
        """See `RemoteBackend.prepare`. Missing accounts and deployments are made."""
        from marless.cloud.deployments import locate
        from marless.cloud.emulated_account import ensure_deployed

        ensure_deployed(tenant, region)
        return locate(self, run, tenant, region)

    def deployed(self, folder: Path, deployment_ref: "DeploymentRef") -> "Deployed":
        """See `RemoteBackend.deployed`."""
        from marless.cloud.deployments import deployed_in
        from marless.cloud.emulated_account import account_of, cloud_of

        return deployed_in(cloud_of(account_of(folder)), deployment_ref)

    def deploy(self, request: DeployRequest) -> "Deployment":
        """See `RemoteBackend.deploy`. A started account stays."""
        from marless.infra.deployment import deploy

        cloud, parameters = _deployment_inputs(request)
        return deploy(
            cloud, request.tenant, parameters, tags=request.tags, service_role=request.service_role, say=request.report
        )

    def preview(self, request: DeployRequest) -> "Sequence[Change]":
        """See `RemoteBackend.preview`. A started account stays."""
        from marless.infra.deployment import preview

        cloud, parameters = _deployment_inputs(request)
        return preview(cloud, request.tenant, parameters, tags=request.tags, service_role=request.service_role)

    def template(self, request: DeployRequest) -> str:
        """See `RemoteBackend.template`. A started account stays."""
        from marless.infra.deployment import filled_in

        cloud, parameters = _deployment_inputs(request)
        return filled_in(cloud, request.tenant, parameters)

    def teardown(self, tenant: str, region: str | None, remove: "Callable[[Cloud, str], int]") -> int:
        """See `RemoteBackend.teardown`. The account ends when it is empty."""
        from aws_emulator import account
        from marless.cloud.emulated_account import account_folder, cloud_at, end, stacks

        folder, code = account_folder(), FINISHED
        if (running := account.find(folder)) is None:
            raise UserError(f"no emulated account runs in {folder}; there is nothing to remove")
        if stacks(running):
            code = remove(cloud_at(running.whereabouts), f"the emulated account in {folder}")
        if not stacks(running):
            end(running)
            logging.getLogger(__name__).info("the emulated account has ended")
        return code

    def release(self, run: str, keep: bool) -> None:
        """See `RemoteBackend.release`."""
        from marless.cloud.emulated_account import release

        release(run, keep)

    def readiness(self) -> Readiness:
        """See `Backend.readiness`."""
        part = self.packages()
        return Readiness(ready=part.ready, what=self.summary, parts=(part,))


BACKEND = EmulatedBackend()


def _deployment_inputs(request: DeployRequest) -> "tuple[Cloud, dict[str, str]]":
    if request.plugins:
        raise UserError("--plugin is for AWS; functions of the emulated account import what this program can")
    from marless.cloud.emulated_account import cloud_at, start
    from marless.cloud.resource_options import require_functions_here
    from marless.cloud.stack_parameters import merged_parameters

    require_functions_here({name: resource for name, resource in request.resources.items() if resource is not None})
    cloud = cloud_at(start(request.region).whereabouts)
    return cloud, merged_parameters(cloud, request.tenant, request.parameters, request.resources)
