"""Handing a run over to the coordinator in the cloud."""

import time

from coordinator import charter, lease
from coordinator.cli.ending import Ending
from coordinator.cli.errors import FINISHED, UserError
from coordinator.cli.folder import Identity, RunFolder
from coordinator.cli.holding import drawn_up
from coordinator.config import RunConfig
from coordinator.loop import STATE
from infra.wiring import Backend, deployed


def detach(folder: RunFolder, config: RunConfig, identity: Identity, backend: Backend) -> Ending:
    """Lets the cloud begin, or go on with, the run; nothing of it needs this machine then.

    Raises `UserError` when somebody drives the run, `StorageFault`.
    """
    residence = identity.residence
    assert residence is not None
    ledger, outside = backend.ledger, deployed(identity.backend, folder.path, residence)
    if outside.live.load(identity.run) is not None:
        raise UserError(f"{folder.name} goes on in the cloud already; `marless watch {folder.name}` shows it")
    try:
        lease.take(ledger, lease.CLOUD, time.time())
    except lease.Held as held:
        raise UserError(str(held)) from held
    charter.write(ledger, drawn_up(identity, residence, config, backend, detached=True))
    # From here on the sweep wakes the run, even if the event is lost.
    coordinator, record = residence.functions["coordinator"], ledger.load(STATE)
    outside.live.commit(identity.run, coordinator.encode(), 0)
    outside.wake(coordinator, identity.run, record.version if record else None)
    folder.become_latest()
    print(f"{folder.name} goes on in the cloud; this machine may be switched off")
    print(f"  marless watch {folder.name}     what it does, and its policies when it has ended")
    print(f"  marless stop {folder.name}      end it after the tasks in flight")
    return Ending(FINISHED, "")
