"""marless worker: serves the tasks of a driver on another machine."""

import math
from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.backends.dial_in import WorkerOptions, dial_in
from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED, UNFINISHED

EXAMPLES = """examples:
  marless train --machines 0.0.0.0:7777    on the machine that drives, node1
  marless worker node1:7777                on each machine that is to serve
  marless worker node1:7777 --workers 4 --token-file token

What tasks import must be importable here: packages of environments, and
modules of the current folder. Ctrl-C ends it; a run goes on without it.
docs/how-to/other-machines.md has ssh, Slurm and Kubernetes."""


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("address", metavar="HOST:PORT", help="where the driver listens")
    common.workers(parser)
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="token that driver and workers share (default: MARLESS_TOKEN, or ~/.config/marless/token)",
    )
    parser.add_argument("--tls-ca", type=Path, metavar="FILE", help="certificate of the driver, or of its signer")
    parser.add_argument(
        "--patience",
        type=common.number("a number of seconds", lambda seconds: seconds >= 0),
        default=math.inf,
        metavar="SECONDS",
        help="end after this time without an answer from a driver (default: dial until one answers)",
    )


def run(options: Namespace) -> int:
    """Serves until it is interrupted, or the driver has been away for too long."""
    worker = WorkerOptions(options.address, options.workers, options.token_file, options.tls_ca, options.patience)
    return FINISHED if dial_in().serve(worker) else UNFINISHED
