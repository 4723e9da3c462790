"""marless worker: serves the tasks of a driver on another machine."""

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from marless.backends.dial_in import WorkerOptions, dial_in
from marless.cli import arguments as common
from marless.cli.dial_in_arguments import token_file
from marless.coordinator.errors import FINISHED, UNFINISHED
from marless.infra.local.available_cores import cores

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
    token_file(parser)
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
    worker = WorkerOptions(options.address, options.slots, options.token_file, options.tls_ca, options.patience)
    return FINISHED if dial_in().serve(worker) else UNFINISHED


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ArgumentTypeError(f"{text[:40]!r} is not a number of seconds")
    return seconds
