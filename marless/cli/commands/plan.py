"""marless plan: the cheapest placement of a run in the cloud that keeps a deadline and a cap of dollars."""

from argparse import ArgumentParser, Namespace

from marless.backends import registry
from marless.cli import arguments as common
from marless.cli.commands.estimate import CONCURRENCY
from marless.coordinator.config.loading import load_with_origins
from marless.estimation.run_plan import plan_run
from marless.estimation.targets import Target
from marless.output import say, say_json, say_text
from marless.views.progress_lines import progress_lines

EXAMPLES = """examples:
  marless plan my_run.toml --deadline 10m --dollars 1
  marless plan task.agents=6 --deadline 90s --detach

All placements train the same weights. Nothing is spent: a few rounds are played here."""


def arguments(parser: ArgumentParser) -> None:
    """What `marless plan` takes."""
    common.configuration(parser)
    parser.add_argument("--deadline", type=common.duration, metavar="TIME", help="longest training: 90s, 10m or 2h")
    dollars = common.number("a number of dollars above 0", lambda value: value > 0)
    parser.add_argument("--dollars", type=dollars, metavar="X", help="highest bill")
    parser.add_argument(
        "--backend",
        choices=registry.remote_names(),
        default=registry.DEFAULT_REMOTE,
        help="where it would run (default: %(default)s)",
    )
    common.detach(parser)
    parser.add_argument(
        "--concurrency",
        type=common.count,
        default=CONCURRENCY,
        metavar="N",
        help="functions that the account may run at once (default: %(default)s)",
    )
    common.workers(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Print the front of time against dollars, and the cheapest placement within the limits."""
    target = Target(registry.lookup(options.backend), options.concurrency, options.detach)
    config = load_with_origins(*common.split(options.settings))[0]
    with progress_lines() as progress:
        plan = plan_run(config, target, options.workers, options.deadline, options.dollars, progress)
    if options.json:
        say_json({"choice": plan.choice, "offers": plan.offers})
        return 0
    say_text(f"{plan.sections[0].text}\n\n")
    say(plan.headline, *plan.sentences)
    return 0
