"""marless unarchive: brings back a run that `marless archive` wrote."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.coordinator.errors import FINISHED
from marless.output import note, say
from marless.program import program_name
from marless.runs.upkeep.archives import unpack

EXAMPLES = """examples:
  marless unarchive first.tar.gz                brings back runs/first
  marless unarchive /backup/first.tar.gz"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the file from marless archive")


def run(options: Namespace) -> int:
    """Makes the run's folder under runs/ and prints its path."""
    folder = unpack(options.file)
    note(f"compare its files with their hashes: {program_name()} verify {folder.argument}")
    say(str(folder.path))
    return FINISHED
