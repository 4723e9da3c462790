"""marless watch: follows a run in the cloud until it ends, then downloads its files and policies."""

from argparse import ArgumentParser, Namespace

from marless.backends import registry
from marless.cli import arguments as common
from marless.cli.console import report_ending
from marless.cloud.remote_runs import find_run
from marless.cloud.watching import Watch
from marless.coordinator.errors import UserError
from marless.program import program_name
from marless.signals import Signals
from marless.views import choose_view

EXAMPLES = """examples:
  marless watch                 follows the latest run in the cloud
  marless watch first           follows the run first"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.run(parser)
    common.elsewhere(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Shows the run as `marless train` would; Ctrl-C does not stop it."""
    folder = find_run(options)
    identity = folder.identity()
    if identity.deployment_ref is None:
        raise UserError(f"{folder.name} is a run on this machine; see {program_name()} status {folder.argument}")
    with Signals() as signals, folder.driving():
        backend = registry.backend(identity.backend).open(folder.path, 1, deployment_ref=identity.deployment_ref)
        view = choose_view(options.json)
        try:
            ending = Watch(folder, identity, backend, view, signals, options.started).follow()
        finally:
            view.close()
            backend.close()
    return report_ending(ending)
