"""Hands a run over to the coordinator in the cloud."""

from marless.backends import registry
from marless.backends.base import Connection
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.drive import lease, run_manifest
from marless.coordinator.drive.ledger_items import STATE
from marless.coordinator.errors import FINISHED, Ending, UserError
from marless.functions.errors import StaleVersion, StorageFault
from marless.infra.local import own_process
from marless.program import program_name
from marless.runs.folder import Identity, RunFolder
from marless.runs.lease_renewal import manifest_of, this_process


def detach(folder: RunFolder, config: RunConfig, identity: Identity, backend: Connection) -> Ending:
    """Lets the cloud start or continue the run, which then needs nothing of this machine.

    This process holds the lease until the last write, so a kill before that leaves a run that stands still. Raises
    `UserError` when another driver has the run, and `StorageFault`.
    """
    deployment_ref = identity.deployment_ref
    assert deployment_ref is not None
    platform = registry.remote(identity.backend)
    ledger, outside = backend.ledger, platform.deployed(folder.path, deployment_ref)
    coordinator = deployment_ref.functions["coordinator"]
    try:
        version = lease.take(ledger, this_process(), ledger.now, own_process.address(), own_process.has_ended)
        run_manifest.write(ledger, manifest_of(identity, deployment_ref, config, backend.platform, detached=True))
        live_record, record = outside.live.load(identity.run), ledger.load(STATE)
        outside.live.commit(identity.run, coordinator.encode(), live_record.version if live_record else 0)
        lease.hand_over(ledger, version, record.version if record else None)
        # The former holder may have been about to remove the run from the list.
        if outside.live.load(identity.run) is None:
            outside.live.commit(identity.run, coordinator.encode(), 0)
    except lease.LeaseHeld as refusal:
        raise UserError(str(refusal)) from refusal
    except StaleVersion as error:
        raise UserError(f"another process has just begun to drive {folder.name}") from error
    # From here on the sweep wakes the run, even if the event is lost or not taken.
    begins = "goes on"
    try:
        outside.wake(coordinator, identity.run)
    except StorageFault:
        begins = "begins within a minute or two"
    folder.become_latest()
    follow, stop = (f"{program_name()} {command} {folder.argument}" for command in ("status --follow", "stop"))
    return Ending(
        FINISHED,
        "",
        result=f"{folder.name} {begins} in the cloud; {platform.survives}\n"
        f"  {follow}     what it does, and its policies when it has ended\n"
        f"  {stop}      end it after the tasks in flight",
    )
