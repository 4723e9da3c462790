"""Local folders for runs in the cloud that were started on another machine."""

from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

from marless.backends import registry
from marless.backends.base import LocatedDeployment
from marless.coordinator.drive import lease, run_manifest
from marless.coordinator.drive.ledger_items import CHECKPOINT, STATE
from marless.coordinator.errors import UserError
from marless.functions.encoding import Undecodable
from marless.functions.errors import StorageFault
from marless.runs.folder import Identity, RunFolder, decode_identity
from marless.runs.run_store import RUNS, require_name

if TYPE_CHECKING:
    from marless.infra.aws.detached_ports import RunPorts


def find_run(options: Namespace) -> RunFolder:
    """The folder of the run that `options.run` names, created from the run's ledger where it is missing.

    Raises `UserError` if the run is neither on this machine nor in the deployment.
    """
    try:
        return RUNS.find(options.run)
    except UserError:
        if options.backend is None:
            raise
    require_name(options.run, "the run")
    from marless.cloud.deployments import locate

    deployment = locate(registry.remote(options.backend), options.run, options.tenant, options.region)
    return _create_folder(options.run, deployment)


def forget(outside: "RunPorts", identity: Identity) -> None:
    """Removes the objects and the ledger items of a run that never began, so that its name is free again.

    Items of another run with that name stay. Raises `StorageFault` where objects cannot be removed.
    """
    ledger, storage = outside.ledger, outside.storage
    # With objects of a round the name would belong to a run with a lost ledger.
    storage.delete(storage.list("rounds/"))
    with suppress(StorageFault, Undecodable):
        manifest = run_manifest.read(ledger)
        if manifest is None or decode_identity(manifest.identity) != identity:
            return
        for item in (STATE, CHECKPOINT, run_manifest.MANIFEST, lease.LEASE):
            ledger.remove(item)


def _create_folder(run: str, deployment: LocatedDeployment) -> RunFolder:
    ledger = deployment.deployed.outside(run).ledger
    try:
        manifest = run_manifest.read(ledger)
        identity = decode_identity(manifest.identity) if manifest else None
    except Undecodable as error:
        raise UserError(f"{run} was started by another version of marless: {error}") from error
    if manifest is None or identity is None:
        raise UserError(f"tenant {deployment.deployment_ref.tenant} has no run {run}")
    folder = RUNS.create(run, run)
    folder.adopt(manifest)
    return folder
