"""marless train: a new run, from the first round to the last."""

from argparse import ArgumentParser, Namespace

from marless.cli import arguments as common
from marless.cli import dial_in_arguments as dial_in
from marless.cli.console import report_ending
from marless.coordinator.config.loading import load_with_origins
from marless.runs.drive_settings import RunLocation
from marless.runs.train_and_resume import train

EXAMPLES = """examples:
  marless train                                     three agents learn to cover three landmarks
  marless train my_run.toml lr=3e-4                 a file, and a setting in place of the file's
  marless train mpe/simple_adversary qmix rounds=50 lr=3e-4
  marless train task.name=mpe/simple_adversary stop.seconds=60 --run first

`marless config --all` lists all settings."""


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    common.configuration(parser)
    common.backend(parser)
    common.workers(parser)
    parser.add_argument("--run", metavar="NAME", help="name of the run (default: task, algorithm, seed and time)")
    common.detach(parser)
    common.json(parser)
    dial_in.machines(parser)


def run(options: Namespace) -> int:
    """Train. The exit code says how it ended."""
    config = load_with_origins(*common.split(options.settings))[0]
    location = RunLocation(common.chosen_backend(options), options.tenant, options.region)
    with dial_in.listening(options, [config]) as listener:
        _, ending = train(config, location, common.drive(options, listener), options.run)
    return report_ending(ending)
