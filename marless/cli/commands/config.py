"""marless config: prints the effective configuration as a file to keep and edit, and the origin of each value."""

from argparse import ArgumentParser, Namespace

import msgspec

from marless.cli import arguments as common
from marless.cli.commands.checks.check import explained
from marless.coordinator.config.defaults import for_any_machine
from marless.coordinator.config.loading import explicit_keys, load_with_origins
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.toml_dump import SHORT, document, selection
from marless.coordinator.config.used_keys import used_keys
from marless.output import say_json, say_text

EXAMPLES = """examples:
  marless config --short > my_run.toml
  marless config my_run.toml algorithm.name=ippo
  marless config --all              every key, also of rules that this run does not use
  marless config --why lbf/8x8-2p-3f"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.configuration(parser)
    selection_group = parser.add_mutually_exclusive_group()
    selection_group.add_argument(
        "--all", action="store_true", help="also keys that this run does not use, or few users change"
    )
    selection_group.add_argument(
        "--short",
        action="store_true",
        help="only seed, task, algorithm, actors, evaluation, stop and log, and the other keys that you set",
    )
    selection_group.add_argument("--why", action="store_true", help="only decisions, each with its reason and source")
    common.json(parser)


def run(options: Namespace) -> int:
    """Print the configuration. Training with it gives the same run."""
    load = explained if options.why else load_with_origins
    config, origins = load(*common.split(options.settings))
    measured = [key for key, origin in origins.items() if origin.startswith("task ")]
    explicit = [*explicit_keys(origins), *measured]
    only = None if options.all else {*SHORT, *explicit} if options.short else used_keys(config, explicit)
    only = {*origins} if options.why else only
    if not options.json:
        say_text("# Behind a value stands what set it; without that it is the default.\n")
        if only is not None:
            say_text("# `marless config --all` prints all settings. Settings that are not here have their defaults.\n")
        config, origins = for_any_machine(config, origins)
        say_text(document(config, plug_ins=True, origins=origins, only=only))
        return 0
    values = msgspec.to_builtins(config)
    for key, value in flatten(values if only is None else selection(values, only)).items():
        say_json({"key": key, "value": value, "set_by": origins.get(key, "default")})
    return 0
