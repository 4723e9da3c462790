"""marless estimate: the bill and the duration of a run, from a few seconds of measurements, or a simulation."""

from argparse import ArgumentParser, Namespace
from typing import Any

from marless.backends import registry
from marless.cli import arguments as common
from marless.cli.commands.results import simulate
from marless.coordinator.config.loading import load_with_origins
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import UserError
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.pricing.prices import load_prices
from marless.coordinator.rules.sharing import SHARING_MODES
from marless.estimation.estimate import Estimate, Estimates, bill_section, estimate_run
from marless.estimation.rented_machine import INSTANCE, rented_machine
from marless.estimation.targets import Target
from marless.machine import this_machine
from marless.output import say, say_json, say_text
from marless.reports.text import counted, learners_for, money, placement_text, seconds
from marless.views.progress_lines import progress_lines

# Functions that an account may run at once unless AWS was asked for more (Lambda developer guide, "Lambda quotas").
CONCURRENCY = 1000

# A lag that gains less is not mentioned.
_WORTH_A_LAG = 0.9

EXAMPLES = """examples:
  marless estimate my_run.toml
  marless estimate stop.rounds=2000 actors.rollouts=8
  marless estimate my_run.toml --backend aws --detach
  marless estimate --simulate latest --rollouts 50,500,1850 --concurrency 1000
  marless estimate --simulate latest --rollouts 500 --slow 0.01 --lost 0.001

With --simulate, name a recorded run, or a file to record briefly (default: latest)."""


def arguments(parser: ArgumentParser) -> None:
    """What `marless estimate` takes."""
    common.configuration(parser)
    parser.add_argument(
        "--backend",
        choices=registry.names(),
        default=registry.DEFAULT,
        help="where it would run (default: %(default)s)",
    )
    common.detach(parser)
    parser.add_argument(
        "--concurrency",
        type=common.count,
        metavar="N",
        help=f"functions that the account may run at once (default: {CONCURRENCY}, or as recorded)",
    )
    common.workers(parser)
    common.json(parser)
    group = parser.add_argument_group("simulate rounds of a recorded run")
    group.add_argument("--simulate", action="store_true", help="simulate instead, with the options below")
    simulate.arguments(group)


def run(options: Namespace) -> int:
    """Measure a few rounds here, then print the bill of all rounds, there and here."""
    if options.simulate:
        return simulate.run(options)
    target = _target(options)
    config = load_with_origins(*common.split(options.settings))[0]
    with progress_lines() as progress:
        estimate = estimate_run(config, target, options.workers, progress)
    if options.json:
        _, run_estimate = estimate.entries[0]
        result = {
            "rounds": run_estimate.rounds,
            "seconds": round(run_estimate.seconds, 1),
            "bill": run_estimate.bill,
            "ending_dollars": run_estimate.ending_dollars,
            "lag_share": None if estimate.lagged is None else round(estimate.lagged, 3),
            "waiting_dollars": round(estimate.waiting_dollars, 9),
            "rented_machine": _rented(estimate),
        }
        if estimate.planned:
            result["placements"] = estimate.planned.pareto_front
        say_json(result)
        return 0
    _show(estimate)
    if estimate.planned:
        say(f"placed as {placement_text(estimate.planned.choice.round_placement)} (others: marless plan)")
    if estimate.config.resources:
        say(_waiting_text(estimate.waiting_dollars, estimate.entries[0][1]))
    if estimate.lagged is not None and estimate.lagged <= _WORTH_A_LAG:
        where = f" ({estimate.entries[0][0].name})" if len(estimate.entries) > 1 else ""
        say(
            f"with pipeline.lag=1 a round would take about {estimate.lagged:.0%} of its time{where}, but learn from"
            " data that is a round older"
        )
    return 0


def _target(options: Namespace) -> Target:
    target = registry.lookup(options.backend)
    if options.detach and not target.remote:
        remote = " or ".join(registry.remote_names())
        raise UserError(f"--detach needs --backend {remote}: on this machine somebody has to drive the run")
    return Target(target, options.workers if target.runs_here else options.concurrency or CONCURRENCY, options.detach)


def _show(estimates: Estimates) -> None:
    config, entries = estimates.config, estimates.entries
    is_alone = len(entries) == 1
    bills = {"quantity" if is_alone else target.name: run_estimate.bill for target, run_estimate in entries}
    say_text(bill_section(bills).text)
    say("")
    for target, run_estimate in entries:
        where = (
            "on this machine" if not target.backend.remote else f"({target.name}, {target.width:,} functions at once)"
        )
        say(f"{counted(run_estimate.rounds, 'round')}, about {seconds(run_estimate.seconds)} of training {where}")
    target, bill = entries[0][0], entries[0][1].bill
    by_slots = PLACEMENTS[config.placement.rule].balances and not target.backend.remote
    placed_text = learners_for(target.width) if by_slots else ""
    place = f"AWS Lambda ({bill.architecture}, {bill.region})"
    say(f"about {money(float(bill.total))}: what this would cost on {place}{placed_text}")
    say(_ending_text(config, entries[0][1]))
    say(_rented_text(estimates))
    if busy_text := this_machine(0).busy_text:
        say(f"{busy_text}: on a quiet machine the estimate is lower")
    if config.stop.dollars is not None:
        say("a cap (stop.dollars) keeps a reserve for those evaluations, so training ends before it is spent")
    if SHARING_MODES[config.sharing.rule].switches:
        say("without switching sharing on or off, which is not known beforehand")
    if config.stop.return_ is not None:
        say(f"less if a mean return of {config.stop.return_:g} is reached earlier")


def _rented(estimates: Estimates) -> dict[str, Any]:
    """Return the price of the run on one rented machine with a virtual processor for each worker here, in dollars."""
    here, run_estimate = estimates.entries[-1]
    machine = rented_machine(load_prices(estimates.config.pricing.region), here.width)
    return {
        "type": INSTANCE,
        "vcpus": machine.vcpus,
        "hourly_dollars": machine.hourly,
        "dollars": round(machine.dollars(run_estimate.seconds), 9),
        "busy_dollars": round(machine.busy_dollars(run_estimate.seconds), 9),
    }


def _rented_text(estimates: Estimates) -> str:
    machine = _rented(estimates)
    price = f"{machine['type']}, {machine['vcpus']} vCPUs, ${machine['hourly_dollars']:g} per hour"
    dollars, busy_dollars = money(machine["dollars"]), money(machine["busy_dollars"])
    bill = estimates.entries[0][1].dollars
    pays = (
        f", cheaper than functions above {machine['busy_dollars'] / bill:.0%}" if machine["busy_dollars"] < bill else ""
    )
    return f"on one rented machine ({price}): {dollars} with its boot, {busy_dollars} if it is busy all the time{pays}"


def _waiting_text(dollars: float, run_estimate: Estimate) -> str:
    share = dollars / run_estimate.dollars if run_estimate.dollars else 0.0
    return f"{money(dollars)} of it ({share:.0%}) is for functions that wait for resources; more slots make it less"


def _ending_text(config: RunConfig, run_estimate: Estimate) -> str:
    dollars, sizes = run_estimate.ending_dollars, config.evaluation_sizes(horizon=1)  # which follow from no horizon
    share = dollars / run_estimate.dollars if run_estimate.dollars else 0.0
    episodes = f"{sizes.final:,} and {sizes.absolute:,} episodes"
    return f"{money(dollars)} of it ({share:.0%}) is for the evaluations that end the run, of {episodes}"
