"""marless pretrain: makes a small language model that has learned from a task's teacher."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.cli import arguments as common
from marless.coordinator.config.loading import load
from marless.coordinator.errors import FINISHED, UserError
from marless.functions.function_specs import KINDS
from marless.output import say

EXAMPLES = """examples:
  marless pretrain text/relay                             models/text-relay.safetensors
  marless pretrain text/relay --steps 2000 --out big.safetensors
  marless train task.name=text/relay algorithm.name=grpo base.model=models/text-relay.safetensors

A run that names no model makes one for its task by itself, once for this machine, with these defaults."""


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "task", metavar="TASK", help="text/relay, text/dictate, text/check, text/haggle, or text:package.module:make"
    )
    parser.add_argument("settings", nargs="*", metavar="task.options.KEY=VALUE", help="options of the task")
    parser.add_argument("--out", type=Path, metavar="FILE", help="a new file (default: models/TASK.safetensors)")
    parser.add_argument(
        "--steps", type=common.count, default=600, metavar="N", help="optimiser steps (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of its weights and lessons (default: 0)")


def run(options: Namespace) -> int:
    """Writes the file and prints its path."""
    if other := next((text for text in options.settings if not text.startswith("task.options.")), ""):
        raise UserError(f"{other}: only options of the task may be set, such as task.options.pairs=all")
    config = load(None, [f"task.name={options.task}", "algorithm.name=grpo", *options.settings])
    name = options.task.replace("/", "-").replace(":", "-")
    out = options.out or Path("models") / f"{name}.safetensors"
    if out.exists():
        raise UserError(f"{out} exists already; delete it, or name another file with --out")
    path = KINDS["language"].tool("language_models:task_base")(config.task, options.seed, options.steps, out)
    say(f"{path}  {path.stat().st_size:,} bytes")
    return FINISHED
