"""marless replay: draws greedy episodes of a run's newest policies as a picture, or plays them in a window. It prints
the words of agents that speak."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.cli import arguments as common
from marless.cli.console import playable
from marless.coordinator.errors import FINISHED, UserError
from marless.functions.function_specs import KINDS
from marless.output import say
from marless.replays import replay_window
from marless.replays.replay_file import encoder, record
from marless.replays.teams import on_stage

EXAMPLES = """examples:
  marless replay                                 three episodes of the latest run
  marless replay my_run --beside random          and random agents on the same start states
  marless replay my_run --episodes 5 --out team.mp4
  marless replay my_run --live                   in a window
  marless replay my_run --agents 5               a policy over entities, with a team that it was not trained with
  marless replay relay --episodes 5              what the roles of a language task say to each other"""


def arguments(parser: ArgumentParser) -> None:
    """What `marless replay` takes."""
    common.run(parser)
    parser.add_argument(
        "--episodes", type=common.count, default=3, metavar="N", help="episodes to play (default: %(default)s)"
    )
    parser.add_argument(
        "--beside",
        metavar="random|scripted|RUN|FILE",
        help="a second panel with random or scripted agents, or the policies of a run or file",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="a .gif, or an .mp4 by ffmpeg (default: the run's replay.gif)"
    )
    parser.add_argument(
        "--live", action="store_true", help="play in a window. With --out, a file is written after you close it"
    )
    common.team_size(parser)
    common.trust(parser)


def run(options: Namespace) -> int:
    """Plays in a window, or writes the picture and prints its path."""
    folder = playable(options.run, options.trust)
    if folder.identity().inputs.language_model is not None:
        if options.beside or options.live or options.out or options.agents:
            raise UserError(
                f"{folder.name}: agents that speak are printed; leave --beside, --live, --out and --agents away"
            )
        for text in KINDS["language"].tool("transcripts:transcripts")(folder, options.episodes):
            say(*text.splitlines(), "")
        return FINISHED
    if options.out is not None:
        encoder(options.out)
    if options.live:
        with (
            replay_window.open_window(folder.path.name, f"replay {folder.argument}") as window,
            on_stage(folder, options.episodes, options.beside, agents=options.agents) as animation,
        ):
            say(replay_window.KEYS)
            replay_window.play(replay_window.Playback(animation), window)
    if options.out is not None or not options.live:
        say(str(record(folder, options.out, options.episodes, options.beside, options.agents)))
    return FINISHED
