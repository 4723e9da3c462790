"""marless stop: ends a run resumably, wherever it goes on, after the tasks in flight."""

import os
import signal
import time
from argparse import ArgumentParser, Namespace
from contextlib import closing

from coordinator.backends import registry
from coordinator.cli import arguments as common
from coordinator.cloud.remote_runs import find_run
from coordinator.drive import lease, run_manifest
from coordinator.errors import FINISHED, UNFINISHED, UserError
from coordinator.runs.folder import LATEST, RunFolder

# How long to wait for the cloud to let go; the tasks in flight may take longer.
_PATIENCE_S = 120.0
_LOOK_S = 1.0


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    common.run(parser, default=LATEST)
    common.elsewhere(parser)
    parser.add_argument("--force", action="store_true", help="take a run away from a cloud that does not let go of it")


def run(options: Namespace) -> int:
    """Asks whoever drives the run to stop, and waits until it has."""
    folder = find_run(options)
    if folder.identity().deployment_ref is not None:
        return _taken_away(folder) if options.force else _in_the_cloud(folder)
    if options.force:
        raise UserError(f"--force is for runs in the cloud; {folder.name} is on this machine")
    pid = folder.driver()
    if pid is None:
        raise UserError(f"{folder.name} is not being trained; marless status {folder.name} says how it stands")
    os.kill(pid, signal.SIGINT)
    print(f"asked process {pid} to stop {folder.name} after the tasks in flight")
    return FINISHED


def _in_the_cloud(folder: RunFolder) -> int:
    identity = folder.identity()
    assert identity.deployment_ref is not None
    place = registry.remote(identity.backend)
    with closing(place.open(folder.path, 1, deployment_ref=identity.deployment_ref)) as backend:
        ledger = backend.ledger
        if not lease.ask_to_stop(ledger):
            held, _ = lease.read(ledger)
            who = held.holder if held.taken("", time.time()) else ""
            raise UserError(f"{folder.name} is driven by {who}; stop it there" if who else _stands(folder))
        manifest_of = run_manifest.read(ledger)
        if manifest_of is not None:
            there = place.deployed(folder.path, identity.deployment_ref)
            there.wake(manifest_of.functions["coordinator"], identity.run)
        print(f"asked the cloud to stop {folder.name} after the tasks in flight")
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            if lease.read(ledger)[0].holder != lease.CLOUD:
                print(f"stopped; go on with: marless resume {folder.name}, or marless resume --detach {folder.name}")
                return FINISHED
            time.sleep(_LOOK_S)
    print("the tasks in flight have not ended yet; the run stops when they have")
    print(f"if it never does: marless stop --force {folder.name}")
    return UNFINISHED


def _taken_away(folder: RunFolder) -> int:
    """Without a word to the coordinator, which may be what is broken; attempts in flight are billed as lost."""
    identity = folder.identity()
    assert identity.deployment_ref is not None
    place = registry.remote(identity.backend)
    with closing(place.open(folder.path, 1, deployment_ref=identity.deployment_ref)) as backend:
        lease.clear(backend.ledger, "stopped by force")
        place.deployed(folder.path, identity.deployment_ref).live.remove(identity.run)
    print(f"{folder.name} is driven by nobody; go on with: marless resume {folder.name}")
    return FINISHED


def _stands(folder: RunFolder) -> str:
    return f"{folder.name} is not being trained; marless status {folder.name} says how it stands"
