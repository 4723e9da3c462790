"""marless crossplay: play every team against every other team on either side. Print scores, ratings and returns."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.cli import arguments as common
from marless.cli.console import playable
from marless.comparison.run_crossplay import crossplay, write
from marless.coordinator.errors import FINISHED
from marless.output import say_json, say_text
from marless.runs.run_store import LATEST
from marless.views.progress_lines import progress_lines

EXAMPLES = """examples:
  marless crossplay chase                    the checkpoints of a league, and the newest policies
  marless crossplay first second random      the newest policies of runs, and random play
  marless crossplay four scripted random     ... and the task's scripted player, or package.module:function

Two teams meet twice from each start state, with the sides exchanged. The team with the higher return over both episodes
wins. A score is the row's team's share of wins. A draw counts half a win."""


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "runs",
        nargs="*",
        default=[LATEST],
        metavar="RUN|FILE|random|scripted",
        help=f"a run with a league (default: {LATEST}), or several teams",
    )
    parser.add_argument(
        "--episodes",
        type=common.count,
        default=320,
        metavar="N",
        help="episodes of each pair and side (default: %(default)s)",
    )
    parser.add_argument(
        "--sampled", action="store_true", help="policies draw their actions (use it if all greedy games are alike)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of crossplay.json and crossplay.png (default: the first run's)"
    )
    common.trust(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Play all pairs. Write and print the matrices."""
    folder = playable(options.runs[0], options.trust)
    with progress_lines() as progress:
        tournament = crossplay(folder, options.runs, options.episodes, options.sampled, progress)
    write(tournament, options.out or folder.path)
    tables = "\n\n".join(section.text for section in tournament.sections)
    say_json(tournament) if options.json else say_text(f"{tournament.headline}\n{tables}")
    return FINISHED
