"""marless runs archive: a run as one file, which `marless runs restore` brings back."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED
from marless.output import note, say
from marless.reports.text import counted, size
from marless.runs.run_store import RUNS
from marless.runs.upkeep.archives import SUFFIX, pack

EXAMPLES = """examples:
  marless runs archive first                 first.tar.gz in this folder
  marless runs archive first --out ../first.tar.gz && marless runs remove first
  marless runs restore ../first.tar.gz       runs/first again

The file is read back and compared before it gets its name; equal runs are equal files."""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.run(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"a new file (default: RUN{SUFFIX})")


def run(options: Namespace) -> int:
    """Writes the file and prints its path."""
    folder = RUNS.find(options.run)
    path = options.out or Path(f"{folder.path.resolve().name}{SUFFIX}")
    files = pack(folder, path)
    note(f"{counted(files, 'file')} of {folder.name}, {size(path.stat().st_size)}; read back and compared")
    say(str(path))
    return FINISHED
