"""marless play: shows a trained team of the zoo at once, and compares its return with the stored return."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from marless import extras
from marless.cli import arguments as common
from marless.coordinator.config.schema import RANDOM
from marless.coordinator.errors import FINISHED, UNFINISHED, UserError
from marless.output import note, say, say_json, say_text
from marless.replays import replay_window
from marless.replays.greedy_episodes import random_team
from marless.replays.replay_file import encoder
from marless.replays.teams import staged
from marless.reports.atomic_files import write_for_user
from marless.reports.policy import TeamPolicy, load_policy
from marless.reports.statistics import FinalReturn
from marless.reports.text import counted, plus_minus, table
from marless.views.progress_lines import progress_lines
from marless_zoo.final_episodes import final_returns
from marless_zoo.stored_team import FOLDER, POLICIES, StoredTeam, stored_team, stored_teams

EXAMPLES = """examples:
  marless play                           the names of all teams
  marless play spread-relation-ippo      its return, and three episodes in spread-relation-ippo.gif
  marless play spread-relation-ippo --beside random --out team.mp4
  marless play spread-relation-ippo --live   in a window

Nothing is trained. The command repeats the final evaluation of the team's training, and ends with 1 if the return
differs from the stored return."""

_HEADER = ("name", "task", "algorithm", "return")


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a team of the zoo (default: list all teams)")
    parser.add_argument(
        "--episodes", type=common.count, default=3, metavar="N", help="episodes to show (default: %(default)s)"
    )
    parser.add_argument("--beside", choices=[RANDOM], help="a second panel with random agents")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="a .gif, or an .mp4 by ffmpeg (default: NAME.gif in this folder)"
    )
    parser.add_argument(
        "--live", action="store_true", help="play in a window. With --out, a file is written after you close it"
    )
    common.json(parser)


def run(options: Namespace) -> int:
    """Print the return and the path of the picture, or the list of all teams."""
    if options.name is None:
        return _list(options.json)
    team = stored_team(options.name)
    if options.out is not None:
        extras.require("report", "marless play --out")
        encoder(options.out)
    with progress_lines() as progress:
        progress(f"playing {team.returns.episodes:,} episodes")
        returns = final_returns(team)
    if not options.json:
        _say(team, returns)
    if options.live:
        _play_live(team, options)
    picture = _picture(team, options)
    if options.json:
        file, is_stored = str(FOLDER / f"{team.name}{POLICIES}"), returns == team.returns
        say_json({"team": team, "returns": returns, "is_stored": is_stored, "file": file, "picture": picture})
    elif picture:
        say(picture)
    return FINISHED if returns == team.returns else UNFINISHED


def _list(as_json: bool) -> int:
    teams = stored_teams()
    if as_json:
        for team in teams:
            say_json(team)
        return FINISHED
    say_text(table(_HEADER, [(team.name, team.task, team.algorithm, plus_minus(team.returns)) for team in teams]))
    return FINISHED


def _say(team: StoredTeam, returns: FinalReturn) -> None:
    agents = counted(team.agents, "agent")
    say(f"{team.name}: {agents} on {team.task}, trained by {team.algorithm}, weights {team.weights_sha256[:12]}")
    side = f" of side {team.side}" if team.side else ""
    stored = "as stored" if returns == team.returns else f"but {plus_minus(team.returns)} is stored"
    say(f"return {plus_minus(returns)}{side}, {returns.episodes:,} episodes, {stored}")


def _panels(team: StoredTeam, rival: str | None) -> Mapping[str, TeamPolicy]:
    policies = load_policy(FOLDER / f"{team.name}{POLICIES}")
    return {team.name: policies} | ({} if rival is None else {rival: random_team(policies)})


def _play_live(team: StoredTeam, options: Namespace) -> None:
    with (
        replay_window.open_window(team.name, f"play {team.name}") as window,
        staged(_panels(team, options.beside), team.seed, options.episodes) as animation,
    ):
        note(replay_window.KEYS)
        replay_window.play(replay_window.Playback(animation), window)


def _picture(team: StoredTeam, options: Namespace) -> str | None:
    """Draw episodes, and return the path of the file, or None. The reason is then on standard error.

    Raises `UserError` if the user named a file that cannot be drawn.
    """
    if options.out is None and options.live:
        return None
    if options.out is None and not extras.is_installed("report"):
        note(f"for a picture: {extras.install('report')}")
        return None
    out = options.out or Path(f"{team.name}.gif")
    try:
        with staged(_panels(team, options.beside), team.seed, options.episodes) as animation:
            body = encoder(out)(animation)
    except UserError as error:
        if options.out is not None:
            raise
        note(str(error))
        return None
    write_for_user(out, body)
    return str(out)
