"""marless ablate: the earlier name of `marless study` with a file that names rules. Its options are the file's keys."""

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from marless.ablation import rules_file
from marless.ablation.ablate import ROOT
from marless.ablation.arms import ARMS, combined_names
from marless.backends import registry
from marless.cli import arguments as common
from marless.cli import dial_in_arguments as dial_in
from marless.cli.commands.study import compare_rules
from marless.coordinator.config.loading import read_toml
from marless.coordinator.errors import UserError

EXAMPLES = """examples:
  marless ablate actors.rollouts=8 stop.rounds=100 --seeds 1-3
  marless ablate --sharing none,ours --scaling constant,gns

docs/how-to/ablate.md explains the file that replaces these options."""

_LISTED = common.listed("list such as none,ours")
# Options for keys of the file, with the types and names of their values.
_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    **dict.fromkeys(("arms", "sharing", "scaling", "placement"), (_LISTED, "A,B")),
    "seeds": (str, "1-10"),
    "random": (common.number("a finite number", math.isfinite), "RETURN"),
    "headlines": (_LISTED, "ARM/OTHER:MEASURE,..."),
    "target": (common.number("a share above 0 and at most 1", lambda share: 0 < share <= 1), "SHARE"),
    "reference": (str, "RUN"),
    "out": (Path, "DIR"),
}


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.configuration(parser)
    for name, (kind, metavar) in _OPTIONS.items():
        parser.add_argument(f"--{name.replace('headlines', 'headline')}", dest=name, type=kind, metavar=metavar)
    common.workers(parser)
    parser.add_argument("--backend", choices=registry.cluster_names())
    common.json(parser)
    dial_in.machines(parser)


def run(options: Namespace) -> int:
    """Trains the missing runs and writes the comparison."""
    path, overrides = common.split(options.settings)
    options.study = str(path or "the command line")
    document = read_toml(path) if path else {}
    if document.keys().isdisjoint(rules_file.KEYS):
        document = {"rules": list(ARMS), "base": document}
    registered_file = rules_file.parse(document, Path(options.study))
    if options.target is not None and not registered_file.tasks:
        raise UserError("--target needs a file with several tasks")
    keys = {name: getattr(options, name) for name in ("seeds", "random", "headlines", "target", "reference")}
    changes = {key: value for key, value in keys.items() if value is not None}
    if names := [*(options.arms or ()), *combined_names(vars(options))]:
        changes |= {"rules": names, "tasks": [replace(task, rules=[]) for task in registered_file.tasks]}
    root = options.out or (ROOT / path.stem if path and registered_file.tasks else None)
    return compare_rules(options, replace(registered_file, **changes), root, overrides, registered_file)
