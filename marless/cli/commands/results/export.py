"""marless export: writes a run's policies, episodes that they play, or episodes of training, for programs without
MARLess."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from marless.cli import arguments as common
from marless.cli.console import playable
from marless.coordinator.errors import FINISHED
from marless.exports import dataset_files, policy_files
from marless.exports.export import FORMATS, PEFT, Exported, export, stores_rounds
from marless.exports.replayed_rounds import PlayAgain
from marless.output import note, say, say_json
from marless.runs.run_store import RUNS
from marless.views.progress_lines import progress_lines

EXAMPLES = """examples:
  marless export latest --to onnx                       a graph for each agent, and a play.py that runs them
  marless export latest --to torch --best --out policies   for plain torch, of the best evaluation
  marless export latest --to safetensors                weights, a list of layers, and a player in numpy
  marless export relay --role adder --to peft           the adapter of a role that speaks, for peft, vLLM and LoRAX
  marless export latest --to npz --episodes 1000        sampled episodes, for offline learning
  marless export latest --to parquet --episodes 1000 --greedy
  marless export latest --to parquet --rounds 90-100    what was sampled in training, a table for each agent

docs/how-to/export.md says what is in the files."""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.run(parser)
    parser.add_argument(
        "--to",
        choices=FORMATS,
        required=True,
        help=f"policies: {', '.join(policy_files.FORMATS)}, episodes: {', '.join(dataset_files.FORMATS)}, or"
        f" adapters of agents that speak: {PEFT}",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="a new folder (default: exports/RUN-FORMAT in this folder)"
    )
    parser.add_argument("--role", metavar="ROLE", help="only this role, for peft (default: all roles, one folder each)")
    common.team_size(parser)
    parser.add_argument("--best", action="store_true", help="take the policies of the best evaluation, not the newest")
    parser.add_argument("--episodes", type=common.count, metavar="N", help="how many episodes to play (npz, parquet)")
    parser.add_argument(
        "--rounds",
        type=_rounds,
        metavar="A-B",
        help="episodes of these training rounds, played again if they are not stored (npz, parquet)",
    )
    parser.add_argument("--greedy", action="store_true", help="play the most probable actions (npz, parquet)")
    common.trust(parser)
    common.workers(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Writes the folder and prints its path."""
    folder = RUNS.find(options.run)
    if options.episodes or (options.rounds and not stores_rounds(folder, options.rounds)):
        folder = playable(options.run, options.trust)
    with progress_lines() as progress:
        again = PlayAgain(options.workers, note, progress)
        what = (options.to, options.out, options.best, options.episodes, options.greedy, options.rounds)
        exported = export(folder, *what, again, options.role, options.agents)
    _show(exported, options.json)
    return FINISHED


def _rounds(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    last = last or first
    if not (first.isdecimal() and last.isdecimal()) or int(first) > int(last):
        raise ArgumentTypeError(f"{text!r} is not rounds such as 390-400")
    return int(first), int(last)


def _show(export: Exported, as_json: bool) -> None:
    if as_json:
        say_json({"folder": str(export.folder), "files": export.files})
        return
    width = max(map(len, export.files))
    for name, size in export.files.items():
        say(f"{name:<{width}}  {size:>12,} bytes")
    say(export.line, str(export.folder))
