"""marless worker: serves the tasks of a driver on another machine."""

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from marless.backends.badge import badge
from marless.cli import arguments as common
from marless.cli import dial_in_arguments as dial_in
from marless.coordinator.errors import FINISHED, UNFINISHED
from marless.infra.local.available_cores import cores
from marless.infra.remote.addresses import address_of
from marless.infra.remote.worker_agent import WorkerAgent
from marless.output import note
from marless.signals import handle_signals

EXAMPLES = """examples:
  marless train --listen 0.0.0.0:7777      on the machine that drives, node1
  marless worker node1:7777                on each machine that is to serve
  marless worker node1:7777 --slots 4 --token-file token

What tasks import must be importable here: packages of environments, and
modules of the current folder. Ctrl-C ends it; a run goes on without it.
docs/how-to/other-machines.md has ssh, Slurm and Kubernetes."""


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("address", metavar="HOST:PORT", help="where the driver listens")
    parser.add_argument(
        "--slots",
        type=common.count,
        default=cores(),
        metavar="N",
        help="tasks at once, one core each (default: number of cores, %(default)s here)",
    )
    dial_in.token_file(parser)
    parser.add_argument("--tls-ca", type=Path, metavar="FILE", help="certificate of the driver, or of its signer")
    parser.add_argument(
        "--patience",
        type=_seconds,
        default=math.inf,
        metavar="SECONDS",
        help="end after this time without an answer from a driver (default: dial until one answers)",
    )


def run(options: Namespace) -> int:
    """Serves until it is interrupted, or the driver has been away for too long."""
    with dial_in.remote_errors():
        address, tls = address_of(options.address), None
        if options.tls_ca:
            from marless.infra.remote import encryption

            tls = encryption.of_worker(options.tls_ca)
        token = dial_in.token(options.token_file, make=False)
        agent = WorkerAgent(address, options.slots, token, badge(), note, options.patience, tls)
        with handle_signals(lambda number, frame: agent.stop()):
            return FINISHED if agent.run() else UNFINISHED


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ArgumentTypeError(f"{text[:40]!r} is not a number of seconds")
    return seconds
