"""Runs whose functions and data are in an AWS account, or in an emulated one, driven from this machine."""

from pathlib import Path

from functions.contract import StorageFault
from infra.aws.awslambda import LambdaInvoker
from infra.aws.clients import Cloud
from infra.aws.deployment_ref import DeploymentRef
from infra.aws.detached import Deployed
from infra.aws.settings import Settings
from infra.wiring import Backend

# Start-up is outside a function's time-out (Lambda developer guide, "Understanding the execution environment").
INIT_LIMIT_MS = 10_000
# Calls that this machine waits for at once, each on a thread of its own.
MOST_CALLS = 256


def remote(cloud: Cloud, deployment_ref: DeploymentRef, grace_s: float, cpu_scaling: bool) -> Backend:
    """The run's storage, ledger and functions. `grace_s` and `cpu_scaling` as in the back-end."""
    outside = settled(cloud, deployment_ref).outside(deployment_ref.run)
    width = min(deployment_ref.width, MOST_CALLS)
    return Backend(
        storage=outside.storage,
        ledger=outside.ledger,
        invoker=LambdaInvoker(cloud, deployment_ref.functions, width),
        init_limit_ms=INIT_LIMIT_MS,
        width=width,
        fixed=True,
        grace_s=grace_s,
        cpu_scaling=cpu_scaling,
    )


def settled(cloud: Cloud, deployment_ref: DeploymentRef) -> Deployed:
    """The deployment that the run lives in."""
    return Deployed(Settings(deployment_ref.bucket, deployment_ref.table, deployment_ref.tenant), cloud)


def emulated_cloud(root: Path) -> Cloud:
    """The emulated account that belongs to the folder of runs; raises `StorageFault` when it does not run."""
    from infra.emulation import account

    found = account.find(root)
    if found is None:
        raise StorageFault(
            "the emulated account of this folder runs no more, and what it held is gone; what a finished run left"
            " is in its folder (summary.json, policies.safetensors)"
        )
    return found.cloud
