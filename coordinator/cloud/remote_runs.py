"""Runs that live in the cloud and were begun on another machine: a folder here for what there is to see of them."""

from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from coordinator.backends import registry
from coordinator.backends.base import LocatedDeployment
from coordinator.config import dump
from coordinator.drive import lease, run_manifest
from coordinator.drive.ledger_items import CHECKPOINT, STATE
from coordinator.errors import UserError
from coordinator.runs.folder import CONFIG, Identity, RunFolder, require_name
from functions.contract import StorageFault

if TYPE_CHECKING:
    from infra.aws.dynamodb import DynamoLedger


def find_run(options: Namespace) -> RunFolder:
    """The folder of the run that `options.run` names; made from the run's ledger where there is none.

    Raises `UserError` for a run that is known neither here nor there.
    """
    try:
        return RunFolder.find(options.run)
    except UserError:
        if options.backend is None:
            raise
    require_name(options.run, "the run")
    from coordinator.cloud.deployments import locate

    found = locate(registry.remote(options.backend), options.run, options.tenant, options.region)
    return _create_folder(options.run, found)


def forget(ledger: "DynamoLedger", identity: Identity) -> None:
    """Removes what a run that never began left there, so that its name is free again; another's of that name stays."""
    with suppress(StorageFault, msgspec.MsgspecError):
        found = run_manifest.read(ledger)
        if found is None or msgspec.json.decode(found.identity, type=Identity) != identity:
            return
        for item in (STATE, CHECKPOINT, run_manifest.MANIFEST, lease.LEASE):
            ledger.remove(item)


def _create_folder(run: str, found: LocatedDeployment) -> RunFolder:
    ledger = found.deployed.outside(run).ledger
    try:
        manifest_of = run_manifest.read(ledger)
        identity = msgspec.json.decode(manifest_of.identity, type=Identity) if manifest_of else None
    except msgspec.MsgspecError as error:
        raise UserError(f"{run} was begun by another version of marless: {error}") from error
    if manifest_of is None or identity is None:
        raise UserError(f"tenant {found.deployment_ref.tenant} has no run {run}")
    folder = RunFolder.create(run, run)
    folder.write(CONFIG, dump.document(manifest_of.config).encode(), durable=True)
    folder.identify(identity)
    return folder
