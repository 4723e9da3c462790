"""marless runs restore: brings back a run that `marless runs archive` wrote."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.coordinator.errors import FINISHED
from marless.output import note, say
from marless.program import program_name
from marless.runs.upkeep.archives import unpack

EXAMPLES = """examples:
  marless runs restore first.tar.gz             brings back runs/first
  marless runs restore /backup/first.tar.gz"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the file from marless runs archive")


def run(options: Namespace) -> int:
    """Makes the run's folder under runs/ and prints its path."""
    folder = unpack(options.file)
    note(f"compare its files with their hashes: {program_name()} runs verify {folder.argument}")
    say(str(folder.path))
    return FINISHED
