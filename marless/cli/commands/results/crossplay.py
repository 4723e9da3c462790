"""marless crossplay: every team plays every other with either side; a matrix of scores, and ratings."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from coordinator.errors import FINISHED, UserError
from functions.contract import BadRequest, MissingExtra
from functions.encoding import to_json
from functions.environments.base import EnvironmentFault, EnvTask, Unsupported
from marless.cli import arguments as common
from marless.cli.console import playable
from marless.comparison import pictures, tournament
from marless.comparison.tournament import Tournament
from marless.output import note, progress, say_json, say_text
from marless.reports.files import replace
from marless.reports.policy import TeamPolicy
from marless.reports.text import table
from marless.runs import cross_evaluation
from marless.runs.folder import RunFolder
from marless.runs.policies import load_checkpoints, load_team

EXAMPLES = """examples:
  marless crossplay chase                    the checkpoints of a league, and the newest policies
  marless crossplay first second random      the newest policies of runs, and random play
  marless crossplay four scripted random     ... and the task's scripted player, or package.module:function

Scores are shares of episodes won by the row's team, a draw being a half, over both sides of the task."""


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "runs", nargs="+", metavar="RUN|FILE|random|scripted", help="a run with a league, or several teams"
    )
    parser.add_argument(
        "--episodes", type=common.count, default=320, metavar="N", help="of each pair and side (default: %(default)s)"
    )
    parser.add_argument(
        "--sampled", action="store_true", help="policies draw their actions; greedy games without chance are all alike"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of crossplay.json and crossplay.png (default: the first run's)"
    )
    common.trust(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Plays all pairs, and writes and prints the matrix."""
    if options.episodes < 2:
        raise UserError("--episodes: an interval needs 2 at least")
    folder = playable(options.runs[0], options.trust)
    task, seed, teams = _league(folder) if len(options.runs) == 1 else _teams(folder, options.runs)
    try:
        found = tournament.play(teams, task, options.episodes, seed, options.sampled, progress)
    except (ValueError, BadRequest, EnvironmentFault, Unsupported) as error:
        raise UserError(f"{folder.name}: {error}") from error
    _write(found, options.out or folder.path)
    say_json(found) if options.json else say_text("\n".join(_lines(found)))
    return FINISHED


def _league(folder: RunFolder) -> tuple[EnvTask, int, dict[str, TeamPolicy | None]]:
    found, checkpoints = load_checkpoints(folder)
    _, newest = load_team(folder)
    teams: dict[str, TeamPolicy | None] = {**checkpoints, f"round {found.kept.round}": newest}
    return newest.task, found.plan.config.seed, teams


def _teams(folder: RunFolder, texts: list[str]) -> tuple[EnvTask, int, dict[str, TeamPolicy | None]]:
    found, own = load_team(folder)
    teams = {texts[0]: own, **{text: cross_evaluation.opponent(text, own) for text in texts[1:]}}
    if len(teams) < len(texts):
        raise UserError(f"a team is named twice: {' '.join(texts)}")
    return own.task, found.plan.config.seed, teams


def _write(found: Tournament, folder: Path) -> None:
    """The files; a missing matplotlib costs only the picture."""
    progress("")
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / "crossplay.json", to_json(found))
    try:
        pictures.draw_scores(found, folder / "crossplay.png")
    except MissingExtra as error:
        note(f"no picture: {error}")
    else:
        note(f"drawn in {folder / 'crossplay.png'}")


def _lines(found: Tournament) -> list[str]:
    rows = [
        (team, f"{rating:,.0f}", *(f"{score:.2f}" for score in scores))
        for team, rating, scores in zip(found.teams, found.ratings, found.scores, strict=True)
    ]
    widest = max(max(row) for row in found.errors)
    return [
        f"{found.task}, {'sampled' if found.sampled else 'greedy'}, {found.episodes:,} episodes of each pair and side",
        table(("team", "Elo", *found.teams), rows),
        "(share of episodes won by the row's team over both sides, a draw being a half;"
        f" 95 % interval ± {widest:.2f} at most)",
    ]
