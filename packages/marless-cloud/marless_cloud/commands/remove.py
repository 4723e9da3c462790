"""marless cloud remove: deletes runs in the cloud, after a question."""

from argparse import ArgumentParser, Namespace

from marless.backends import registry
from marless.cli import arguments as common
from marless.cli.console import confirm
from marless.coordinator.errors import FINISHED
from marless.output import say
from marless.reports.text import size

EXAMPLES = """examples:
  marless cloud remove first second     says how large they are, and asks
  marless cloud archive first && marless cloud remove first --yes

A run that is driven is refused: stop it first. Folders under runs/ stay. Type it again if it was cut short."""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="names of runs, as `marless cloud runs` lists them")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    common.remote_backend(parser)


def run(options: Namespace) -> int:
    """Removes the runs, one after the other."""
    from marless_cloud.cloud_runs import CloudRuns

    runs = CloudRuns(registry.remote(options.backend), options.tenant, options.region)
    rows = [runs.row(name) for name in dict.fromkeys(options.runs)]
    names = ", ".join(f"{row.run} ({row.status}, {size(row.bytes)})" for row in rows)
    confirm(f"remove {names} of tenant {options.tenant}?", options.yes)
    for row in rows:
        runs.remove(row.run)
        say(f"removed {row.run}, {size(row.bytes)}")
    return FINISHED
