"""marless cloud restore: brings back a run that `marless cloud archive` wrote."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.backends import registry
from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED
from marless.output import say
from marless.program import program_name

EXAMPLES = """examples:
  marless cloud restore first.tar.gz
  marless cloud restore first.tar.gz --tenant team-b

Type it again if it was cut short."""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the file from marless cloud archive")
    common.remote_backend(parser)


def run(options: Namespace) -> int:
    """Puts the run into the tenant's deployment."""
    from marless.cloud.deployments import options_of
    from marless_cloud.cloud_runs import CloudRuns

    run_name = CloudRuns(registry.remote(options.backend), options.tenant, options.region).restore(options.file)
    location = options_of(options.backend, options.tenant, options.region, usual="")
    say(f"{run_name} is in the cloud again; look at it with: {program_name()} status {run_name}{location}")
    return FINISHED
