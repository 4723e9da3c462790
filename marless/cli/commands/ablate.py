"""marless ablate: compares sharing, scaling and placement rules over seeds, with runs in parallel on this machine."""

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

from marless.ablation import suite_file
from marless.ablation.ablate import AblationView, ablate, ablate_suite, plan, plan_suite
from marless.ablation.arms import ARMS, SHARING, choose_arms
from marless.backends import registry
from marless.cli import arguments as common
from marless.cli import dial_in_arguments as dial_in
from marless.cli.console import report_ending
from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.coordinator.errors import UserError
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.infra.local.available_cores import cores
from marless.output import say, say_text
from marless.runs.run_policies import with_absolute_policies
from marless.signals import Signals
from marless.studies.cells import Arm
from marless.studies.seeds import seeds_of
from marless.views.ablation_views import AblationEvents, AblationLines

EXAMPLES = f"""examples:
  marless ablate scaling.rollouts=8 stop.rounds=100 --seeds 1-3
  marless ablate my_run.toml --arms marless-minus,packed,ours --random -79.4
  marless ablate --sharing none,ours --scaling constant,gns --placement split,packed
  marless ablate suite.toml                  several tasks, one after the other, and a table over all

arms (the first one is the baseline):
{chr(10).join(f"  {arm.name:<15}{arm.about}" for arm in ARMS.values())}

The same command resumes a stopped ablation. docs/how-to/ablate.md explains the results."""

_LISTED = common.listed("list such as none,ours")
_RETURN = common.number("a finite number", math.isfinite)
_SHARE = common.number("a share above 0 and at most 1", lambda share: 0 < share <= 1)


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.configuration(parser)
    parser.add_argument("--arms", type=_LISTED, metavar="A,B", help="arms, the baseline first (default: all)")
    parser.add_argument("--sharing", type=_LISTED, metavar="A,B", help=f"combine rules instead: {', '.join(SHARING)}")
    parser.add_argument("--scaling", type=_LISTED, metavar="A,B", help=f"... {', '.join(SCALING_RULES)}")
    parser.add_argument("--placement", type=_LISTED, metavar="A,B", help=f"... {', '.join(PLACEMENTS)}")
    parser.add_argument(
        "--seeds", type=_seeds, metavar="1-10", help="seeds of every arm (default: seeds of a suite's file, or 1-10)"
    )
    parser.add_argument(
        "--workers",
        type=common.count,
        default=cores(),
        metavar="N",
        help="parallel runs (default: number of cores, %(default)s here)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: ablations/TASK-ALGORITHM)")
    parser.add_argument(
        "--random", type=_RETURN, metavar="RETURN", help="return of random play, to report losses in %% of the gain"
    )
    parser.add_argument(
        "--headline",
        type=_LISTED,
        default=[],
        metavar="ARM/OTHER:MEASURE,...",
        help="contrasts that you declare before the runs, by return, dollars or reach. Their p-values are"
        " corrected together",
    )
    parser.add_argument(
        "--target", type=_SHARE, metavar="SHARE", help="target of a suite's table, 0 to 1 (default: target in its file)"
    )
    parser.add_argument(
        "--reference", metavar="RUN", help="run that provides the opponents of each side of competing agents"
    )
    parser.add_argument(
        "--backend", choices=registry.cluster_names(), help="the cluster where functions run, not this machine"
    )
    common.json(parser)
    dial_in.listen(parser)


def run(options: Namespace) -> int:
    """Runs missing cells and writes the comparison."""
    path, overrides = common.split(options.settings)
    axes = {axis: getattr(options, axis) or [] for axis in ("sharing", "scaling", "placement")}
    arms_of = partial(choose_arms, options.arms or [], axes)
    if path is not None and suite_file.is_suite(path):
        return _run_suite(options, path, overrides, arms_of)
    if options.target is not None:
        raise UserError("--target needs the file of a suite, with several tasks")
    base, arms = with_absolute_policies(load(path, overrides)), arms_of(list(ARMS))
    seeds = options.seeds or list(range(1, 11))
    ablation = plan(base, arms, seeds, options.out, options.random, options.headline, overrides, options.reference)
    options.folder = ablation.folder
    with Signals() as signals:
        view, listen = _view(options, signals), partial(dial_in.serving, options)
        return report_ending(ablate(ablation, options.workers, signals, view, listen).ending)


def _run_suite(options: Namespace, path: Path, overrides: list[str], arms_of: Callable[[list[str]], list[Arm]]) -> int:
    """Compares the arms on one task after the other, then over all tasks."""
    if options.random is not None or options.reference is not None:
        raise UserError("--random and --reference are for one task; the file of a suite has the return of random play")
    share = options.target or suite_file.load(path).target
    ablations = plan_suite(path, arms_of, options.seeds, options.out, options.headline, overrides)
    options.folder = ablations[0].folder.parent
    with Signals() as signals:
        view, listen = _view(options, signals), partial(dial_in.serving, options)
        ending, table = ablate_suite(path.stem, ablations, options.workers, signals, view, listen, share)
    if table and not options.json:
        say("")
        say_text(table)
        say(str(options.folder))
    return report_ending(ending)


def _view(options: Namespace, signals: Signals) -> AblationView:
    return AblationEvents(signals) if options.json else AblationLines(signals)


def _seeds(text: str) -> list[int]:
    try:
        return seeds_of(text)
    except ConfigError as error:
        raise ArgumentTypeError(str(error)) from error
