"""marless cloud prune: lists and deletes unneeded versions, packages, images and log groups of a deployment."""

from argparse import ArgumentParser, Namespace
from datetime import timedelta

from marless.backends import registry
from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED
from marless.output import say, say_text
from marless.reports.text import counted, money, size, table

EXAMPLES = """examples:
  marless cloud prune                     lists, and deletes nothing
  marless cloud prune --yes --tenant team-b

Versions of functions that a run or an alias names stay, and so do their packages. Type it again if it was cut short."""
_SETTLED_S = 3600.0


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--yes", action="store_true", help="delete the listed things")
    parser.add_argument(
        "--age",
        type=common.duration,
        default=_SETTLED_S,
        metavar="TIME",
        help="keep younger packages and images, because a deployment may be about to use them (default: 1h)",
    )
    common.remote_backend(parser)


def run(options: Namespace) -> int:
    """Print a row for each unneeded thing, with its price by month. Delete the things if the user asked for that."""
    from marless.cloud.deployments import require_deployment
    from marless_cloud.unneeded import unneeded

    backend = registry.remote(options.backend)
    cloud = backend.cloud(options.region)
    deployment = require_deployment(backend, cloud, options.tenant, options.region)
    things = unneeded(cloud, deployment, timedelta(seconds=options.age))
    if not things:
        say(f"tenant {options.tenant} keeps nothing that can go")
        return FINISHED
    rows = [(thing.kind, size(thing.bytes), money(float(thing.dollars)), thing.name) for thing in things]
    say_text(table(("kind", "size", "a month", "name"), rows))
    total = sum(float(thing.dollars) for thing in things)
    amount = f"{counted(len(things), 'thing')}, {size(sum(thing.bytes for thing in things))}, {money(total)} a month"
    if not options.yes:
        say(f"{amount}; nothing was deleted: add --yes to delete them")
        return FINISHED
    for thing in things:
        thing.delete()
    say(f"deleted {amount}")
    return FINISHED
