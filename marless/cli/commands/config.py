"""marless config: prints the effective configuration as a file to keep and edit."""

from argparse import ArgumentParser, Namespace

from coordinator.config.dump import document
from coordinator.config.schema import load
from marless.cli import arguments as common
from marless.output import say_text

EXAMPLES = """examples:
  marless config > my_run.toml
  marless config my_run.toml algorithm.name=ippo"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.configuration(parser)


def run(options: Namespace) -> int:
    """Prints the configuration; trained with, it gives the same run."""
    say_text(document(load(*common.split(options.settings)), plug_ins=True))
    return 0
