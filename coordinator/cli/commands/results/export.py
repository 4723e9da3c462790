"""marless export: writes a run's policies, or episodes that they play, for programs without MARLess."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import msgspec

from coordinator.cli import arguments as common
from coordinator.errors import FINISHED, UserError
from coordinator.exports import dataset_files, policy_files
from coordinator.exports.export import FORMATS, Exported, export_episodes, export_policies
from coordinator.runs.folder import RunFolder

EXAMPLES = """examples:
  marless export latest --to onnx                       a graph for each agent, and a play.py that runs them
  marless export latest --to torch --best -o policies   programs for plain torch, of the best evaluation
  marless export latest --to safetensors                weights, a list of layers, and a player in numpy
  marless export latest --to npz --episodes 1000        sampled episodes, for offline learning
  marless export latest --to parquet --episodes 1000 --greedy

docs/how-to/export.md says what is in the files."""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.run(parser)
    parser.add_argument(
        "--to",
        choices=FORMATS,
        required=True,
        help=f"policies: {', '.join(policy_files.FORMATS)}; episodes: {', '.join(dataset_files.FORMATS)}",
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="a new folder (default: exports/RUN-FORMAT in this folder)"
    )
    parser.add_argument("--best", action="store_true", help="the policies of the best evaluation, not the newest")
    parser.add_argument("--episodes", type=common.count, metavar="N", help="how many episodes to play (npz, parquet)")
    parser.add_argument("--greedy", action="store_true", help="play the most probable actions (npz, parquet)")
    common.json(parser)


def run(options: Namespace) -> int:
    """Writes the folder and prints its path."""
    folder = RunFolder.find(options.run)
    out = options.out or Path("exports") / f"{folder.path.resolve().name}-{options.to}"
    if options.to in dataset_files.FORMATS:
        if options.episodes is None:
            raise UserError(f"--to {options.to} writes episodes; say how many with --episodes N")
        found = export_episodes(folder, options.to, out, options.best, options.episodes, options.greedy)
    else:
        if options.episodes is not None or options.greedy:
            raise UserError(f"--to {options.to} writes policies; leave --episodes and --greedy away")
        found = export_policies(folder, options.to, out, options.best)
    _show(found, options.json)
    return FINISHED


def _show(found: Exported, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode({"folder": str(found.folder), "files": found.files}).decode())
        return
    width = max(map(len, found.files))
    for name, size in found.files.items():
        print(f"{name:<{width}}  {size:>12,} bytes")
    print(found.line)
    print(found.folder)
