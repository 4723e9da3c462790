"""marless config: prints the effective configuration as a file to keep and edit, and what set each value."""

from argparse import ArgumentParser, Namespace

import msgspec

from coordinator.config.loading import load_with_origins
from coordinator.config.nested_tables import flatten
from coordinator.config.toml_dump import document
from marless.cli import arguments as common
from marless.output import say_json, say_text

EXAMPLES = """examples:
  marless config > my_run.toml
  marless config my_run.toml algorithm.name=ippo"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.configuration(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Prints the configuration; trained with, it gives the same run."""
    config, origins = load_with_origins(*common.split(options.settings))
    if not options.json:
        say_text("# Behind a value stands what set it; without that it is the default.\n")
        say_text(document(config, plug_ins=True, origins=origins))
        return 0
    for key, value in flatten(msgspec.to_builtins(config)).items():
        say_json({"key": key, "value": value, "set_by": origins.get(key, "default")})
    return 0
