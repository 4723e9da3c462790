"""Starts, deploys to and ends the emulated account of a folder of runs."""

import logging
import os
from pathlib import Path

from aws_emulator import account as accounts
from aws_emulator.account import Account, AccountFault
from aws_emulator.account_folder import Lock, Whereabouts
from aws_emulator.settings import AccountSettings
from marless.cloud.deployments import deployed_in
from marless.cloud.stack_parameters import merged_parameters
from marless.coordinator.drive.ledger_items import load_state
from marless.coordinator.errors import UserError
from marless.functions import kernel_variables
from marless.functions.errors import StorageFault
from marless.infra.aws.clients import Cloud
from marless.infra.aws.detached_ports import Deployed
from marless.infra.aws.error_messages import storage_errors
from marless.infra.aws.function_settings import Settings
from marless.infra.deployment import DeploymentFault, deploy, describe, stack_name
from marless.infra.packaging import package_build
from marless.program import program_name
from marless.reports import provenance
from marless.runs.folder import RunFolder
from marless.runs.run_store import RUNS

BACKEND = "emulated"
REGION = "us-east-1"
# The emulated account of a folder of runs.
FOLDER = ".emulated"
CONCURRENCY = "MARLESS_EMULATED_CONCURRENCY"
"""The environment variable with the concurrent executions of an account that a command starts."""

_LOGGER = logging.getLogger(__name__)

# Accounts that this process started for one of its runs.
_started: list[Account] = []


def account_folder() -> Path:
    """Return the folder where the emulated account of this folder of runs keeps its address."""
    return RUNS.root / FOLDER


def account_of(run: Path) -> Path:
    """Return the folder of the emulated account of a run. It is next to the run, or for a study's run in this folder of
    runs."""
    beside = run.parent / FOLDER
    return beside if beside.is_dir() else account_folder()


def cloud_of(folder: Path) -> Cloud:
    """Return clients for the account in `folder`. Raises `StorageFault` if it does not run."""
    if (running := accounts.find(folder)) is None:
        raise StorageFault(
            "the emulated account of this folder runs no more, and what it held is gone; what a finished run left"
            " is in its folder (summary.json, policies.safetensors)"
        )
    return cloud_at(running.whereabouts)


def cloud_at(where: Whereabouts) -> Cloud:
    """Clients with the operator's credentials."""
    return Cloud(region=where.region, endpoint=where.endpoint, credentials=(where.key, where.secret, None))


def ensure_deployed(tenant: str, region: str | None) -> None:
    """Starts the account of this folder if necessary and deploys the present program for the tenant.

    Raises `UserError`, and `StorageFault` when it does not answer.
    """
    before = accounts.find(account_folder())
    running = start(region)
    if before is None:
        _started.append(running)
    # Of two commands that start at once the second waits for the first, and has nothing to deploy.
    lock = Lock(account_folder() / "deploying.lock")
    lock.take(wait=True)
    try:
        _deploy(cloud_at(running.whereabouts), tenant)
    finally:
        lock.release()


def start(region: str | None) -> Account:
    """Return the running account, started if necessary. Raises `UserError`."""
    folder, concurrency = account_folder(), _wanted_concurrency()
    if (running := accounts.find(folder)) is None:
        _LOGGER.info("starting an emulated AWS account in %s", folder)
        try:
            # Tasks may lie in the current folder, like on this machine. Our packages come first.
            settings = AccountSettings(
                region=region or REGION,
                code=(provenance.ROOT, Path.cwd()),
                concurrency=concurrency or AccountSettings.concurrency,
                runtime=package_build.RUNTIME,
                architecture=package_build.ARCHITECTURE,
                inherited_variables=kernel_variables.VARIABLES,
            )
            running = accounts.start(folder, settings)
        except AccountFault as fault:
            raise UserError(str(fault)) from fault
    there = running.whereabouts.region
    if region not in (None, there):
        raise UserError(f"the emulated account in {folder} is in {there}; leave --region out, or end the account first")
    if concurrency is not None:
        _require_concurrency(running, concurrency)
    return running


def release(run: str, keep: bool) -> None:
    """Ends the account if this process started it, unless `keep` is set or another run needs it.

    Raises `UserError` when the account does not end.
    """
    if not _started:
        return
    running = _started.pop()
    other_runs = (folder for folder in RUNS.folders() if folder.path.name != run)
    if keep or any(map(_is_unfinished, other_runs)) or _governs(running):
        delete = f"{program_name()} cloud teardown --backend {BACKEND}"
        _LOGGER.warning("the emulated account keeps running; delete it and its data with: %s", delete)
        return
    end(running)


def end(running: Account) -> None:
    """End the account. Raises `UserError` if that fails."""
    try:
        running.stop()
    except AccountFault as fault:
        raise UserError(str(fault)) from fault


def stacks(running: Account) -> list[str]:
    """Return the names of the stacks in it. Raises `StorageFault`."""
    with storage_errors("list", "stacks"):
        client = cloud_at(running.whereabouts).client("cloudformation")
        return [stack["StackName"] for stack in client.describe_stacks()["Stacks"]]


def _deploy(cloud: Cloud, tenant: str) -> None:
    deployment = describe(cloud, stack_name(tenant))
    code = provenance.code_sha256()
    if deployment is not None and deployment.code == code:
        return
    _LOGGER.info(f"{'updating' if deployment else 'deploying'} stack {stack_name(tenant)} in the emulated account")
    try:
        deploy(cloud, tenant, merged_parameters(cloud, tenant, {"Code": code}))
    except DeploymentFault as fault:
        raise UserError(str(fault)) from fault


def _wanted_concurrency() -> int | None:
    if not (text := os.environ.get(CONCURRENCY)):
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{CONCURRENCY}: {text!r} is not a whole number above 0")
    return int(text)


def _require_concurrency(running: Account, concurrency: int) -> None:
    with storage_errors("ask", "the emulated account for its quotas"):
        settings = cloud_at(running.whereabouts).client("lambda").get_account_settings()
    if (there := settings["AccountLimit"]["ConcurrentExecutions"]) != concurrency:
        raise UserError(
            f"{CONCURRENCY}: the emulated account in {account_folder()} was started with {there:,} concurrent"
            f" executions, not {concurrency:,}; unset the variable, or end the account first"
        )


def _governs(running: Account) -> bool:
    cloud = cloud_at(running.whereabouts)
    deployments = [describe(cloud, stack) for stack in stacks(running)]
    settings = [Settings(each.bucket, each.table, each.tenant) for each in deployments if each]
    return any(Deployed(each, cloud).live.items("") for each in settings)


def _is_unfinished(folder: RunFolder) -> bool:
    try:
        identity = folder.identity()
        ref = identity.deployment_ref
        if identity.backend != BACKEND or ref is None:
            return False
        state = load_state(deployed_in(cloud_of(account_of(folder.path)), ref).outside(ref.run).ledger)
    except (UserError, StorageFault):
        return False  # the account is gone or unreadable, so nothing can be lost
    return state is not None and state.status != "finished"
