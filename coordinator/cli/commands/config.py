"""marless config: the configuration that a run would have, as a file to keep and edit."""

from argparse import ArgumentParser, Namespace

from coordinator.cli import arguments as common
from coordinator.config.dump import document
from coordinator.config.schema import load

EXAMPLES = """examples:
  marless config > my_run.toml
  marless config my_run.toml algorithm.name=ippo"""


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    common.configuration(parser)


def run(options: Namespace) -> int:
    """Prints the configuration as a file that gives the same run; 0."""
    print(document(load(*common.split(options.settings))), end="")
    return 0
