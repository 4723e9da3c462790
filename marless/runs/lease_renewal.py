"""Keeps the lease of a run in the cloud while this process drives it."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from marless.backends.base import Connection
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.drive import lease, run_manifest
from marless.coordinator.drive.run_manifest import RunManifest
from marless.coordinator.errors import UserError
from marless.coordinator.platform import Platform
from marless.functions.encoding import to_json
from marless.functions.errors import StaleVersion, StorageFault
from marless.infra.aws.deployment_ref import DeploymentRef
from marless.infra.local import own_process
from marless.runs.folder import Identity


@contextmanager
def renew_lease(identity: Identity, config: RunConfig, backend: Connection) -> Iterator[Callable[[], None]]:
    """Take the lease and give the function that renews it. A run on this machine has a locked folder instead.

    Raises `UserError` when another driver has the run.
    """
    if identity.deployment_ref is None:
        yield lambda: None
        return
    try:
        clock, here = backend.ledger.now, own_process.address()
        keeper = lease.Keeper(backend.ledger, this_process(), clock, here, own_process.has_ended)
    except lease.LeaseHeld as error:
        raise UserError(str(error)) from error
    try:
        run_manifest.write(
            backend.ledger, manifest_of(identity, identity.deployment_ref, config, backend.platform, detached=False)
        )
        yield keeper.renew
    finally:
        # A lease that is not released expires.
        with suppress(StorageFault, StaleVersion):
            keeper.release()


def this_process() -> str:
    """Return the name of this process in a lease."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def manifest_of(
    identity: Identity, deployment_ref: DeploymentRef, config: RunConfig, platform: Platform, detached: bool
) -> RunManifest:
    """The run's manifest, for its ledger."""
    return RunManifest(
        run=identity.run,
        tenant=deployment_ref.tenant,
        config=config,
        code=identity.code_sha256,
        identity=msgspec.Raw(to_json(identity)),
        functions=deployment_ref.functions,
        platform=msgspec.structs.replace(platform, concurrency=deployment_ref.width, can_inline=not detached),
        inputs=identity.inputs,
    )
