"""marless stop: stops a run after the tasks in flight, on this machine or in the cloud. You can resume it."""

import os
import signal
import time
from argparse import ArgumentParser, Namespace
from contextlib import closing

from marless.backends import registry
from marless.cli import arguments as common
from marless.cloud.remote_runs import find_run
from marless.coordinator.drive import lease, run_manifest
from marless.coordinator.errors import FINISHED, UNFINISHED, UserError
from marless.infra.local.own_process import has_ended
from marless.output import say
from marless.program import program_name
from marless.runs.folder import RunFolder

EXAMPLES = """examples:
  marless stop                  stops the latest run
  marless stop first            stops runs/first"""

# The seconds to wait until the cloud releases the lease. The tasks in flight may take longer.
_PATIENCE_S = 120.0
_LOOK_S = 1.0


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.run(parser)
    common.elsewhere(parser)
    parser.add_argument("--force", action="store_true", help="clear the lease of a run that the cloud does not stop")


def run(options: Namespace) -> int:
    """Ask the driver of the run to stop, and wait for a run in the cloud."""
    folder = find_run(options)
    if folder.identity().deployment_ref is not None:
        return _clear_lease(folder) if options.force else _stop_in_cloud(folder)
    if options.force:
        raise UserError(f"--force is for runs in the cloud; {folder.name} is on this machine")
    if (pid := folder.driver()) is None:
        raise UserError(_not_trained(folder))
    os.kill(pid, signal.SIGINT)
    say(f"asked process {pid} to stop {folder.name} after the tasks in flight")
    return FINISHED


def _stop_in_cloud(folder: RunFolder) -> int:
    identity = folder.identity()
    assert identity.deployment_ref is not None
    place = registry.remote(identity.backend)
    with closing(place.open(folder.path, 1, deployment_ref=identity.deployment_ref)) as backend:
        ledger = backend.ledger
        if not lease.ask_to_stop(ledger):
            current, _ = lease.read(ledger)
            who = current.holder if current.is_taken("", ledger.now(), has_ended) else ""
            raise UserError(f"{folder.name} is driven by {who}; stop it there" if who else _not_trained(folder))
        if (manifest := run_manifest.read(ledger)) is not None:
            place.deployed(folder.path, identity.deployment_ref).wake(manifest.functions["coordinator"], identity.run)
        say(f"asked the cloud to stop {folder.name} after the tasks in flight")
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            if lease.read(ledger)[0].holder != lease.CLOUD:
                resume = f"{program_name()} resume"
                again = f"{resume} {folder.argument}, or {resume} --detach {folder.argument}"
                say(f"stopped; continue with: {again}")
                return FINISHED
            time.sleep(_LOOK_S)
    say("the tasks in flight have not ended yet; the run will stop when they have")
    say(f"if it never stops: {program_name()} stop --force {folder.argument}")
    return UNFINISHED


def _clear_lease(folder: RunFolder) -> int:
    """Clear the lease without the coordinator, which may be broken. Attempts in flight are billed as lost."""
    identity = folder.identity()
    assert identity.deployment_ref is not None
    place = registry.remote(identity.backend)
    with closing(place.open(folder.path, 1, deployment_ref=identity.deployment_ref)) as backend:
        lease.clear(backend.ledger, "stopped by force")
        place.deployed(folder.path, identity.deployment_ref).live.remove(identity.run)
    say(f"{folder.name} is stopped; continue with: {program_name()} resume {folder.argument}")
    return FINISHED


def _not_trained(folder: RunFolder) -> str:
    return f"{folder.name} is not being trained; see {program_name()} status {folder.argument}"
