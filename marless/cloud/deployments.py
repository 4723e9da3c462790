"""Finding a tenant's deployment, and fitting a run to it."""

import re

from msgspec.structs import asdict, replace

from marless.backends import registry
from marless.backends.base import TENANT, Connection, LocatedDeployment, RemoteBackend
from marless.cloud.accounts import caller
from marless.cloud.run_resources import fit_resources
from marless.coordinator.config.defaults import placed_in_cloud
from marless.coordinator.config.schema import Function, Functions, RunConfig
from marless.coordinator.errors import UserError
from marless.coordinator.platform import LatencyName, Platform
from marless.coordinator.pricing.bill import Meter
from marless.functions.function_specs import DEPLOYED
from marless.infra.aws.awslambda import LambdaInvoker
from marless.infra.aws.clients import Cloud
from marless.infra.aws.deployment_ref import DeploymentRef
from marless.infra.aws.detached_ports import Deployed
from marless.infra.aws.error_messages import storage_errors
from marless.infra.aws.function_settings import Settings
from marless.infra.deployment import Deployment, describe, stack_name
from marless.program import program_name

# Start-up is outside a function's time-out (Lambda developer guide, "Understanding the execution environment").
INIT_LIMIT_MS = 10_000
# Calls that this machine waits for at once, each on a separate thread.
MOST_CALLS = 256


def locate(backend: RemoteBackend, run: str, tenant: str, region: str | None) -> LocatedDeployment:
    """The tenant's deployment, as it is, for the run. Raises `UserError` when there is none, and `StorageFault`."""
    cloud = backend.cloud(region)
    deployment = require_deployment(backend, cloud, tenant, region)
    deployment_ref = _deployment_ref(run, deployment, cloud)
    return LocatedDeployment(
        deployment_ref,
        deployed_in(cloud, deployment_ref),
        deployment.code,
        deployment.resources,
        deploy_command(backend.name, tenant, region),
    )


def require_deployment(backend: RemoteBackend, cloud: Cloud, tenant: str, region: str | None) -> Deployment:
    """The tenant's deployment. Raises `UserError` when there is none, and `StorageFault`."""
    if (deployment := describe(cloud, stack_name(tenant))) is None:
        make = deploy_command(backend.name, tenant, region)
        raise UserError(f"tenant {tenant} has no deployment there; make it with: {make}")
    return deployment


def deployed_in(cloud: Cloud, deployment_ref: DeploymentRef) -> Deployed:
    """The deployment that the run lives in."""
    return Deployed(Settings(deployment_ref.bucket, deployment_ref.table, deployment_ref.tenant), cloud)


def connect(
    cloud: Cloud, deployment_ref: DeploymentRef, grace_s: float, cpu_scaling: bool, latency: LatencyName
) -> Connection:
    """Connects to a run in a deployment. `Platform` explains `grace_s`, `cpu_scaling` and `latency`."""
    outside = deployed_in(cloud, deployment_ref).outside(deployment_ref.run)
    width = min(deployment_ref.width, MOST_CALLS)
    return Connection(
        storage=outside.storage,
        ledger=outside.ledger,
        invoker=LambdaInvoker(cloud, deployment_ref.functions, width),
        platform=Platform(
            concurrency=width, init_limit_ms=INIT_LIMIT_MS, grace_s=grace_s, cpu_scaling=cpu_scaling
        ).on_lambda(latency),
        repeated=lambda: Meter(**asdict(cloud.retries.take())),
        printed=f"{program_name()} cloud logs {deployment_ref.run}",
    )


def fit(config: RunConfig, deployment: LocatedDeployment) -> RunConfig:
    """The configuration as it is placed in the cloud, with the sizes that functions and external resources were
    deployed with, as far as they are.

    Sizes that the user set, and that differ, raise `UserError`: a deployed function has one size. So do resources that
    are not deployed.
    """
    sizes = {
        name: _fit(name, size, deployment.deployment_ref) if name in DEPLOYED else size
        for name, size in asdict(config.functions).items()
    }
    resources = fit_resources(config.resources, deployment.resources, deployment.deploy_command)
    return replace(placed_in_cloud(config), functions=Functions(**sizes), resources=resources)


def _fit(name: str, size: Function, deployment_ref: DeploymentRef) -> Function:
    usual = getattr(Functions(), name)
    memory, limit = deployment_ref.memory_mb[name], deployment_ref.timeout_s[name]
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


def _deployment_ref(run: str, deployment: Deployment, cloud: Cloud) -> DeploymentRef:
    return DeploymentRef(
        run=run,
        tenant=deployment.tenant,
        region=deployment.region,
        stack=deployment.stack,
        bucket=deployment.bucket,
        table=deployment.table,
        functions=dict(deployment.functions),
        memory_mb=dict(deployment.memory_mb),
        timeout_s=dict(deployment.timeout_s),
        width=deployment.concurrency or account_concurrency(cloud),
        # Of arn:aws:iam::ACCOUNT:user/anna and of arn:aws:sts::ACCOUNT:assumed-role/trainer/anna.
        owner=re.split("[:/]", caller(cloud).arn)[-1],
    )


def account_concurrency(cloud: Cloud) -> int:
    """Return how many functions the account may run at once, without concurrency reserved for single functions."""
    with storage_errors("ask", "Lambda for its quotas"):
        settings = cloud.client("lambda").get_account_settings()
    return int(settings["AccountLimit"]["UnreservedConcurrentExecutions"])


def options_of(backend: str, tenant: str, region: str | None, usual: str) -> str:
    """Return the options that name a deployment, with a blank before each. The back-end `usual` needs no option."""
    options = [("backend", backend, usual), ("tenant", tenant, TENANT), ("region", region, None)]
    return "".join(f" --{name} {value}" for name, value, default in options if value != default)


def deploy_command(backend: str, tenant: str, region: str | None) -> str:
    """The command that makes or renews the deployment."""
    return f"{program_name()} cloud deploy{options_of(backend, tenant, region, usual=registry.DEFAULT_REMOTE)}"
