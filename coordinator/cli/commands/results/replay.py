"""marless replay: draws greedy episodes of a run's newest policies as an animated picture."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from coordinator.cli import arguments as common
from coordinator.errors import FINISHED
from coordinator.replay.recording import record
from coordinator.runs.folder import LATEST, RunFolder

EXAMPLES = """examples:
  marless replay                                 three episodes of the latest run
  marless replay my_run --beside random          and random agents on the same start states
  marless replay my_run --episodes 5 --out team.mp4"""


def arguments(parser: ArgumentParser) -> None:
    """What `marless replay` takes."""
    common.run(parser, LATEST)
    parser.add_argument(
        "--episodes", type=common.count, default=3, metavar="N", help="episodes to play (default: %(default)s)"
    )
    parser.add_argument(
        "--beside", metavar="random|RUN|FILE", help="a second panel: random agents, or the policies of that run or file"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="a .gif, or an .mp4 by ffmpeg (default: the run's replay.gif)"
    )


def run(options: Namespace) -> int:
    """Writes the picture and prints its path."""
    print(record(RunFolder.find(options.run), options.out, options.episodes, options.beside))
    return FINISHED
