"""marless stop: ends a run resumably, wherever it goes on, after the tasks in flight."""

import os
import signal
import time
from argparse import ArgumentParser, Namespace
from contextlib import closing

from coordinator import charter, lease
from coordinator.cli import options as common
from coordinator.cli.errors import FINISHED, UNFINISHED, UserError
from coordinator.cli.folder import LATEST, RunFolder
from coordinator.cli.remote_runs import known
from infra import wiring

# How long to wait for the cloud to let go; the tasks in flight may take longer.
_PATIENCE_S = 120.0
_LOOK_S = 1.0


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    common.run(parser, default=LATEST)
    common.elsewhere(parser)


def run(options: Namespace) -> int:
    """Asks whoever drives the run to stop, and waits until it has."""
    folder = known(options)
    if folder.identity().residence is not None:
        return _in_the_cloud(folder)
    pid = folder.driver()
    if pid is None:
        raise UserError(f"{folder.name} is not being trained; marless status {folder.name} says how it stands")
    os.kill(pid, signal.SIGINT)
    print(f"asked process {pid} to stop {folder.name} after the tasks in flight")
    return FINISHED


def _in_the_cloud(folder: RunFolder) -> int:
    identity = folder.identity()
    assert identity.residence is not None
    with closing(wiring.BACKENDS[identity.backend](folder.path, 1, residence=identity.residence)) as backend:
        ledger = backend.ledger
        if not lease.ask_to_stop(ledger):
            held, _ = lease.read(ledger)
            who = held.holder if held.taken("", time.time()) else ""
            raise UserError(f"{folder.name} is driven by {who}; stop it there" if who else _stands(folder))
        drawn_up = charter.read(ledger)
        if drawn_up is not None:
            there = wiring.deployed(identity.backend, folder.path, identity.residence)
            there.wake(drawn_up.functions["coordinator"], identity.run)
        print(f"asked the cloud to stop {folder.name} after the tasks in flight")
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            if lease.read(ledger)[0].holder != lease.CLOUD:
                print(f"stopped; go on with: marless resume {folder.name}, or marless resume --detach {folder.name}")
                return FINISHED
            time.sleep(_LOOK_S)
    print("the tasks in flight have not ended yet; the run stops when they have")
    return UNFINISHED


def _stands(folder: RunFolder) -> str:
    return f"{folder.name} is not being trained; marless status {folder.name} says how it stands"
