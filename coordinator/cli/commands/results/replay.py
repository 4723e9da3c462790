"""marless replay: draws greedy episodes of a run's newest policies as an animated GIF."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from coordinator import extras
from coordinator.cli import arguments as common
from coordinator.errors import FINISHED, UserError
from coordinator.replay import animation
from coordinator.reports.files import replace
from coordinator.runs.folder import LATEST, RunFolder
from coordinator.runs.policies import load_team
from functions.contract import BadRequest
from functions.environments.base import EnvironmentFault, Unsupported

EXAMPLES = """examples:
  marless replay                                 three episodes of the latest run
  marless replay my_run --episodes 5 --gif team.gif"""


def arguments(parser: ArgumentParser) -> None:
    """What `marless replay` takes."""
    common.run(parser, LATEST)
    parser.add_argument(
        "--episodes", type=common.count, default=3, metavar="N", help="episodes to play (default: %(default)s)"
    )
    parser.add_argument("--gif", type=Path, metavar="FILE", help="the picture (default: the run's replay.gif)")


def run(options: Namespace) -> int:
    """Writes the picture and prints its path."""
    extras.require("report", "marless replay")
    folder = RunFolder.find(options.run)
    path = options.gif or folder.path / "replay.gif"
    if path.suffix != ".gif":
        raise UserError(f"--gif {path}: the file's name has to end in .gif")
    if not path.parent.is_dir():
        raise UserError(f"--gif {path}: there is no folder {path.parent}")
    found, team = load_team(folder)
    try:
        frames = animation.play(team, options.episodes, found.plan.config.seed)
    except (BadRequest, EnvironmentFault, Unsupported, UserError) as error:
        raise UserError(f"{team.task.name}: {error}") from error
    body = animation.gif(frames, options.episodes, f"{found.plan.run}, round {found.kept.round:,}")
    try:
        replace(path, body)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    print(path)
    return FINISHED
