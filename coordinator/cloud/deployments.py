"""Finding a tenant's deployment, and fitting a run to it."""

from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import asdict, replace

from coordinator.cloud.accounts import region_of
from coordinator.config.schema import Function, Functions, RunConfig
from coordinator.errors import UserError
from coordinator.reports import provenance
from coordinator.runs.folder import ROOT
from infra.aws.clients import Cloud
from infra.aws.deployment_ref import DeploymentRef
from infra.aws.detached import Deployed
from infra.aws.errors import storage_errors
from infra.aws.remote import emulated_cloud, settled
from infra.deployment import Deployment, describe, stack_name
from infra.wiring import EMULATED, TENANT, BackendName


@dataclass(frozen=True)
class Found:
    """A deployment: where runs in it live, and a way in."""

    deployment_ref: DeploymentRef
    deployed: Deployed
    backend: BackendName


def account_folder() -> Path:
    """Where the emulated account of this folder of runs keeps its address."""
    return ROOT / EMULATED


def way(backend: BackendName, region: str | None) -> Cloud:
    """A way into the account that a deployment would be in; nothing is started.

    Raises `UserError` for a region that is none, `StorageFault` where the emulated account does not run.
    """
    return emulated_cloud(account_folder()) if backend == "emulated" else Cloud(region_of(region))


def located(run: str, backend: BackendName, tenant: str, region: str | None) -> Found:
    """The tenant's deployment, as it is, as a home for the run.

    Raises `UserError` when there is none, and `StorageFault`.
    """
    return _found(run, way(backend, region), backend, tenant, region)


def present(run: str, backend: BackendName, tenant: str, region: str | None) -> Found:
    """The tenant's deployment with this version of the program, as a home for the run; an emulated one is made where
    there is none.

    Raises `UserError` when there is none, or it holds another version of the program, and `StorageFault`.
    """
    if backend == "emulated":
        from coordinator.cloud.emulated import account

        return _found(run, account(tenant, region), backend, tenant, region)
    return _found(run, way(backend, region), backend, tenant, region, provenance.code_sha256())


def _found(
    run: str, cloud: Cloud, backend: BackendName, tenant: str, region: str | None, code: str | None = None
) -> Found:
    found = describe(cloud, stack_name(tenant))
    if found is None:
        raise UserError(f"tenant {tenant} has no deployment there; make it with: {_deploy(backend, tenant, region)}")
    if code not in (None, found.code):
        again = _deploy(backend, tenant, region)
        raise UserError(f"the deployed functions are of another version of marless; renew them with: {again}")
    deployment_ref = _deployment_ref(run, found, cloud)
    return Found(deployment_ref, settled(cloud, deployment_ref), backend)


def fitted(config: RunConfig, found: Found) -> RunConfig:
    """The configuration with the sizes that functions were deployed with.

    Sizes that the user set, and that differ, raise `UserError`: a deployed function has one size.
    """
    sizes = {name: _fitted(name, size, found) for name, size in asdict(config.functions).items()}
    return replace(config, functions=Functions(**sizes))


def _fitted(name: str, size: Function, found: Found) -> Function:
    usual = getattr(Functions(), name)
    memory, limit = found.deployment_ref.memory_mb[name], found.deployment_ref.timeout_s[name]
    if size.memory_mb not in (usual.memory_mb, memory):
        raise UserError(
            f"functions.{name}.memory_mb: {size.memory_mb} was asked for, and {memory} is deployed; leave it out, or"
            f" deploy again with --{name}-memory {size.memory_mb}"
        )
    if size.timeout_s > limit and size.timeout_s != usual.timeout_s:
        raise UserError(
            f"functions.{name}.timeout_s: {size.timeout_s:g} was asked for, and {limit} is deployed; leave it out, or"
            f" deploy again with --{name}-timeout {size.timeout_s:g}"
        )
    return replace(size, memory_mb=memory, timeout_s=min(size.timeout_s, limit))


def _deployment_ref(run: str, found: Deployment, cloud: Cloud) -> DeploymentRef:
    return DeploymentRef(
        run=run,
        tenant=found.tenant,
        region=found.region,
        stack=found.stack,
        bucket=found.bucket,
        table=found.table,
        functions=dict(found.functions),
        memory_mb=dict(found.memory_mb),
        timeout_s=dict(found.timeout_s),
        width=found.concurrency or account_concurrency(cloud),
    )


def account_concurrency(cloud: Cloud) -> int:
    """How many functions the account may run at once, beside those for which it is reserved."""
    with storage_errors("ask", "Lambda for its quotas"):
        settings = cloud.client("lambda").get_account_settings()
    return int(settings["AccountLimit"]["UnreservedConcurrentExecutions"])


def spelled(backend: str, tenant: str, region: str | None, usual: str = "aws") -> str:
    """The options that name a deployment again, with a blank before each; `usual` is the back-end that goes unsaid."""
    said = [("backend", backend, usual), ("tenant", tenant, TENANT), ("region", region, None)]
    return "".join(f" --{name} {value}" for name, value, unsaid in said if value != unsaid)


def _deploy(backend: BackendName, tenant: str, region: str | None) -> str:
    return f"marless deploy{spelled(backend, tenant, region)}"
