"""marless cloud runs: lists the runs that a tenant's deployment holds, oldest first."""

from argparse import ArgumentParser, Namespace

from marless.backends import registry
from marless.cli import arguments as common
from marless.cli.commands.runs.list import row_options, show
from marless.coordinator.errors import FINISHED

EXAMPLES = """examples:
  marless cloud runs --long                    with all columns
  marless cloud runs --status finished --sort size
  marless status first --backend aws           one of them, on another machine than the one that began it"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    row_options(parser)
    common.remote_backend(parser)


def run(options: Namespace) -> int:
    """Prints a row for every run. The size counts the run's objects."""
    from marless_cloud.cloud_runs import CloudRuns

    show(CloudRuns(registry.remote(options.backend), options.tenant, options.region).rows(), options)
    return FINISHED
