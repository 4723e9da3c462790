"""marless cloud archive: a run of the cloud as one file, which `marless cloud restore` brings back."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.backends import registry
from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED
from marless.output import note, say
from marless.reports.text import counted, size
from marless.runs.upkeep.archives import SUFFIX

EXAMPLES = """examples:
  marless cloud archive first                first.tar.gz in this folder
  marless cloud archive first --out ../first.tar.gz --tenant team-b"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("run", metavar="RUN", help="name of a run, as `marless cloud runs` lists it")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"a new file (default: RUN{SUFFIX})")
    common.remote_backend(parser)


def run(options: Namespace) -> int:
    """Writes the file and prints its path."""
    from marless_cloud.cloud_runs import CloudRuns

    path = options.out or Path(f"{options.run}{SUFFIX}")
    files = CloudRuns(registry.remote(options.backend), options.tenant, options.region).archive(options.run, path)
    note(f"{counted(files, 'file')} of {options.run}, {size(path.stat().st_size)}; read back and compared")
    say(str(path))
    return FINISHED
